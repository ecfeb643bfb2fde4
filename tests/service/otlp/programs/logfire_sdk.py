"""Logfire's instrumentations of openai and anthropic, sent elsewhere than to Logfire."""

import logfire
from anthropic import Anthropic
from exporting import STUB, call_anthropic, call_openai
from openai import OpenAI

logfire.configure(send_to_logfire=False, console=False, environment="staging")
logfire.instrument_openai(OpenAI)
logfire.instrument_anthropic(Anthropic)
assert STUB
call_openai()
call_anthropic()
logfire.shutdown()
