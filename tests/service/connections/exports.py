"""Reports as people download them from each provider, and what they come to."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

PERSON = "canary-4711"  # whom no report may leave behind


@dataclass(frozen=True)
class Sample:
    """A file, and what it comes to: dollars and tokens."""

    provider: str
    report: str
    text: str
    usd: str = "0"
    prompt: int = 0
    cached: int = 0
    written: int = 0
    completion: int = 0
    first: date = date(2026, 9, 1)
    last: date = date(2026, 9, 2)
    left_out: int = 0

    @property
    def billed(self) -> Decimal:
        return Decimal(self.usd)


_FOCUS = (
    "BillingCurrency,BilledCost,ListCost,ChargeCategory,ChargePeriodStart,ConsumedUnit,"
    "{who},ServiceName,SkuMeter,SubAccountId,SubAccountName\n"
    "USD,1.25,1.5,Usage,2026-09-01T00:00:00Z,Tokens,{name},{service},input tokens,1,Prod\n"
    "USD,0.005,0.005,Usage,2026-09-02T00:00:00Z,Tokens,{name},{service},output tokens,1,Prod\n"
    "USD,-0.25,0,Credit,2026-09-02T00:00:00Z,,{name},{service},Promotion,1,Prod\n"
    "USD,99,99,Usage,2026-09-02T00:00:00Z,Hours,{name},Virtual Machines,Hours,1,Prod\n"
)
SAMPLES = {
    "openai costs": Sample(
        "openai",
        "costs_by_hand",
        "start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,quantity,"
        "quantity_unit,line_item,user_id,api_key_id,project_id,organization_id,project_name,"
        "organization_name,user_email,api_source\n"
        "1788220800,1788307200,2026-09-01T00:00:00+00:00,2026-09-02T00:00:00+00:00,"
        f'0.1234567890123456,usd,10,tokens,"gpt-5-nano, input_tokens",u,key_1,proj_1,o,Search,Acme,'
        f"{PERSON}@example.org,\n"
        "1788307200,1788393600,2026-09-02T00:00:00+00:00,2026-09-03T00:00:00+00:00,"
        f"2,usd,,,web search tool calls,u,key_1,proj_1,o,Search,Acme,{PERSON}@example.org,\n"
        "1788307200,1788393600,2026-09-02T00:00:00+00:00,2026-09-03T00:00:00+00:00,,,,,,,,,,,,,\n",
        usd="2.1234567890123456",
        left_out=1,
    ),
    "openai costs as JSON": Sample(
        "openai",
        "costs_by_hand",
        '{"object": "page", "data": [{"object": "bucket", "start_time": 1788220800, "end_time": '
        '1788307200, "results": [{"object": "organization.costs.result", "amount": {"value": 0.06, '
        '"currency": "usd"}, "line_item": "gpt-4o, input", "project_id": "proj_1", '
        '"api_key_id": null}]}], "has_more": false, "next_page": null}',
        usd="0.06",
        last=date(2026, 9, 1),
    ),
    # By minute, as the dashboard writes it for short ranges.
    "openai usage": Sample(
        "openai",
        "completions_by_hand",
        "start_time,end_time,project_id,num_model_requests,user_id,api_key_id,model,batch,"
        "service_tier,input_tokens,output_tokens,input_cached_tokens,input_audio_tokens,"
        "output_audio_tokens\n"
        + "".join(
            f"{start},{start + 60},proj_1,3.0,{PERSON},key_1,gpt-4o,False,default,1000,50,400,0,0\n"
            for start in (1788220800, 1788220860, 1788307200)
        ),
        prompt=3_000,
        cached=1_200,
        completion=150,
    ),
    "anthropic usage": Sample(
        "anthropic",
        "usage_by_hand",
        "usage_date_utc,model_version,api_key,workspace,usage_type,context_window,"
        "usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,"
        "usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,"
        "web_search_count,inference_geo,speed\n"
        "2026-09-01,claude-sonnet-4-5-20250929,k,Default,standard,≤ 200k,1000,20,30,400,50,2,"
        "not_available,\n"
        "2026-09-02,claude-sonnet-4-5-20250929,k,Chat,batch,> 200k,10,0,0,0,5,0,global,\n",
        prompt=1_460,
        cached=400,
        written=50,
        completion=55,
    ),
    "anthropic costs": Sample(
        "anthropic",
        "costs_by_hand",
        "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,"
        "list_price_usd,cost_type,inference_geo,speed\n"
        "2026-09-01,Claude Haiku 4.5,Default,k,message,≤ 200k,input_no_cache,0.05,0.05,token,,\n"
        "2026-09-02,,Default,k,,,,0.5,0.5,web_search,,\n",
        usd="0.55",
    ),
    "anthropic usage as JSON": Sample(
        "anthropic",
        "usage_by_hand",
        '{"data": [{"starting_at": "2026-09-01T00:00:00Z", "ending_at": "2026-09-02T00:00:00Z", '
        '"results": [{"api_key_id": null, "workspace_id": null, "model": "claude-sonnet-4-5", '
        '"service_tier": "standard", "context_window": "0-200k", "inference_geo": "global", '
        '"uncached_input_tokens": 1000, "cache_creation": {"ephemeral_5m_input_tokens": 20, '
        '"ephemeral_1h_input_tokens": 30}, "cache_read_input_tokens": 400, "output_tokens": 50, '
        '"server_tool_use": {"web_search_requests": 2}}]}], "has_more": false, "next_page": null}',
        prompt=1_450,
        cached=400,
        written=50,
        completion=50,
        last=date(2026, 9, 1),
    ),
    "anthropic costs as JSON": Sample(
        "anthropic",
        "costs_by_hand",
        '{"data": [{"starting_at": "2026-09-01T00:00:00Z", "ending_at": "2026-09-02T00:00:00Z", '
        '"results": [{"currency": "USD", "amount": "123.45", "workspace_id": null, "description": '
        '"Claude Sonnet 4.5 Usage - Input Tokens", "cost_type": "tokens", "context_window": '
        '"0-200k", "model": "claude-sonnet-4-5", "service_tier": "standard", "token_type": '
        '"uncached_input_tokens", "inference_geo": "global"}]}], "has_more": false, '
        '"next_page": null}',
        usd="1.2345",
        last=date(2026, 9, 1),
    ),
    "openrouter activity": Sample(
        "openrouter",
        "activity_by_hand",
        '{"data": [{"date": "2026-09-01", "model": "openai/gpt-4.1", "model_permaslug": "x", '
        '"endpoint_id": "y", "provider_name": "OpenAI", "usage": 0.015, "byok_usage_inference": 0, '
        '"requests": 5, "prompt_tokens": 50, "completion_tokens": 125, "reasoning_tokens": 25}, '
        '{"date": "2026-09-02", "model": "openai/gpt-4.1", "model_permaslug": "x", '
        '"endpoint_id": "y", "provider_name": "OpenAI", "usage": 1.5, "byok_usage_inference": 0, '
        '"requests": 1, "prompt_tokens": 10, "completion_tokens": 5, "reasoning_tokens": 0}]}',
        usd="1.515",
        prompt=60,
        completion=130,
    ),
    "cursor events": Sample(
        "cursor",
        "events_by_hand",
        '"Date","User","Cloud Agent ID","Automation ID","Kind","Model","Max Mode",'
        '"Input (w/ Cache Write)","Input (w/o Cache Write)","Cache Read","Output Tokens",'
        '"Total Tokens","Cost"\n'
        f'"2026-09-01T09:00:00.000Z","{PERSON}","","","Included","gpt-5.4","No","5000","1000",'
        '"38208","473","44681","0.05"\n'
        f'"2026-09-02T09:05:00.000Z","{PERSON}","","","On-Demand","gpt-5.4","No","0","100","0",'
        '"5","105","$0.02"\n'
        f'"2026-09-02T09:06:00.000Z","{PERSON}","","","Errored, No Charge","gpt-5.4","No","0",'
        '"100","0","0","100","Free"\n'
        f'"2026-09-02T09:07:00.000Z","{PERSON}","","","User API Key","gpt-5.4","No","0","1000","0",'
        '"100","1100","-"\n',
        usd="0.02",
        prompt=44_408,
        cached=38_208,
        written=5_000,
        completion=478,
        left_out=1,
    ),
    "copilot credits": Sample(
        "github-copilot",
        "credits_by_hand",
        '"date","username","product","sku","model","quantity","unit_type",'
        '"applied_cost_per_quantity","gross_amount","discount_amount","net_amount","input",'
        '"output","cache_read","cache_write","organization"\n'
        f'"2026-09-01","{PERSON}","copilot","copilot_ai_credits","Claude Opus 4.6","30","credits",'
        '"0.01","0.3","0.1","0.2","10000","500","8000","1000","org"\n'
        f'"2026-09-02","{PERSON}","actions","actions_linux","","30","minutes","0.01","0.3","0",'
        '"0.3","","","","","org"\n',
        usd="0.2",
        prompt=10_000,
        cached=8_000,
        written=1_000,
        completion=500,
        last=date(2026, 9, 1),
        left_out=1,
    ),
    "copilot requests": Sample(
        "github-copilot",
        "requests_by_hand",
        '"date","username","product","sku","model","quantity","unit_type",'
        '"applied_cost_per_quantity","gross_amount","discount_amount","net_amount",'
        '"exceeds_quota","total_monthly_quota","organization","cost_center_name"\n'
        f'"2026-09-01","{PERSON}","copilot","copilot_premium_request","Claude Opus 4.6","3",'
        '"requests","0.04","0.12","0.12","0","False","1500","org",""\n'
        f'"2026-09-02","{PERSON}","copilot","copilot_premium_request","Claude Opus 4.6","3",'
        '"requests","0.04","0.12","0","0.12","True","1500","org",""\n',
        usd="0.12",
    ),
    "aws report": Sample(
        "aws",
        "costs_by_hand",
        '"identity/LineItemId","bill/BillingPeriodStartDate","lineItem/UsageAccountId",'
        '"lineItem/LineItemType","lineItem/UsageStartDate","lineItem/ProductCode",'
        '"lineItem/UsageType","lineItem/UsageAmount","lineItem/UnblendedCost",'
        '"product/ProductName"\n'
        '"x","2026-09-01T00:00:00Z","1","Usage","2026-09-01T05:00:00Z","AmazonBedrock",'
        '"USE1-NovaLite-input-tokens","1000","3.0",""\n'
        '"y","2026-09-01T00:00:00Z","1","Usage","2026-09-02T05:00:00Z","6f8cx6eaykdhjxi",'
        '"USE1_InputTokenCount","1000","0.5","Claude Sonnet 4.5 (Amazon Bedrock Edition)"\n'
        '"z","2026-09-01T00:00:00Z","1","Usage","2026-09-02T05:00:00Z","AmazonEC2","BoxUsage","1",'
        '"9","Amazon Elastic Compute Cloud"\n',
        usd="3.5",
        left_out=1,
    ),
    "aws report 2.0": Sample(
        "aws",
        "costs_by_hand",
        "bill_billing_period_start_date,line_item_usage_account_id,line_item_line_item_type,"
        "line_item_usage_start_date,line_item_product_code,line_item_usage_type,"
        "line_item_unblended_cost,line_item_currency_code\n"
        "2026-09-01 00:00:00,1,Usage,2026-09-01 05:00:00,AmazonBedrock,USE1-Nova-tokens,3.0,USD\n"
        "2026-09-01 00:00:00,1,Tax,2026-09-02 00:00:00,AmazonBedrock,USE1-Nova-tokens,0.3,USD\n",
        usd="3.3",
    ),
    **{
        f"focus of {provider}": Sample(
            provider,
            "costs_by_hand",
            _FOCUS.format(who=who, name=name, service=service),
            usd="1.005",
            left_out=1,
        )
        for provider, who, name, service in (
            ("aws", "ProviderName", "AWS", "Amazon Bedrock"),
            ("azure", "ProviderName", "Microsoft", "Azure OpenAI Service"),
            ("google", "ServiceProviderName", "Google Cloud", "Vertex AI"),
        )
    },
}
