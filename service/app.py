"""Wire the web process together: `create_app`, without any logic of its own."""

from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from service.config import Config
from service.config.resources import RESOURCES
from service.core.db import make_engine, make_session_factory
from service.core.telemetry.processes import begin_process
from service.reports.html import register_filters
from service.web.api import (
    account_audits,
    account_findings,
    audits,
    comparison,
    early_access,
    future_calls,
    ingest,
    marks,
    oauth,
    otlp,
    plan_limits,
    plan_usage,
    reconciliation,
    report_links,
    spend,
    uploads,
    webhooks,
)
from service.web.auth.admin_gate import ADMIN_PREFIX, hide_admin, init_admin_passkeys
from service.web.auth.browsers import init_browsers
from service.web.auth.callers import limit_pages
from service.web.auth.credential_usage import init_credential_usage
from service.web.auth.csrf import MAX_FORM_BYTES, init_csrf
from service.web.auth.security_events import init_security_events
from service.web.auth.visitors import show_visitors
from service.web.auth.web_sessions import init_web_sessions
from service.web.http.bodies import init_body_memory
from service.web.http.compression import init_compression
from service.web.http.current import init_current
from service.web.http.error_responses import register_error_handlers
from service.web.http.headers import add_security_headers
from service.web.http.limits import init_limits, refuse_when_busy
from service.web.http.paths import API_PREFIX, INGEST_PREFIX, OTLP_PREFIX, init_paths
from service.web.http.request_log import count_requests, log_requests, trace_requests
from service.web.http.static_files import init_static_files
from service.web.oauth import init_oauth
from service.web.openapi.api import Api, admin_api, admin_schemes, api, security_schemes
from service.web.openapi.report_schema import report_schemas
from service.web.pages import admin, go, views
from service.web.pages.account import (
    activity,
    assumptions,
    billing,
    budgets,
    confirmation,
    notices,
    passkeys,
    prices,
    recalculation,
    second_step,
    session,
    settings,
)
from service.web.pages.audits import audit as audit_pages
from service.web.pages.audits import calls as finding_calls
from service.web.pages.audits import report as reports
from service.web.pages.audits import sharing, upload
from service.web.pages.bill import page as bill
from service.web.pages.connections import page as connections
from service.web.pages.dashboard import first as first_steps
from service.web.pages.dashboard import page as dashboard
from service.web.pages.developer import allowed, applications, consent
from service.web.pages.developer import secrets as developer
from service.web.pages.findings import detail as findings_detail
from service.web.pages.findings import downloads as finding_downloads
from service.web.pages.findings import home as findings
from service.web.pages.imports import future as imports_future
from service.web.pages.imports import page as imports
from service.web.pages.public import (
    client_index,
    docs,
    glossary,
    health,
    legal,
    sample,
    security_txt,
)
from service.web.pages.public import landing as public
from service.web.pages.spend import compare
from service.web.pages.spend import details as spend_details
from service.web.pages.spend import marks as chart_marks
from service.web.pages.spend import page as spend_page
from service.web.pages.spend import plans as plan_pages

_API: Final = (
    uploads,
    audits,
    account_audits,
    account_findings,
    spend,
    comparison,
    plan_limits,
    plan_usage,
    reconciliation,
    future_calls,
    marks,
    report_links,
    webhooks,
    early_access,
)
_DOCUMENTED_PAGES: Final = (health, reports, session, oauth, consent)
_PAGES: Final = (
    public,
    sample,
    legal,
    security_txt,
    client_index,
    docs,
    glossary,
    settings,
    assumptions,
    prices,
    recalculation,
    notices,
    connections,
    bill,
    budgets,
    plan_pages,
    activity,
    confirmation,
    passkeys,
    second_step,
    sharing,
    developer,
    applications,
    allowed,
    billing,
    upload,
    audit_pages,
    finding_calls,
    dashboard,
    first_steps,
    spend_page,
    chart_marks,
    imports,
    imports_future,
    spend_details,
    compare,
    findings,
    findings_detail,
    finding_downloads,
    go,
    views,
)
for _page in (reports, *_PAGES):
    limit_pages(_page.blueprint)


def create_app(config: Config | None = None) -> Flask:
    """Create the web application; without `config`, read the settings from the environment."""
    config = config or Config.load()
    begin_process(config)
    app = Flask("service", template_folder=str(RESOURCES / "templates"), static_folder="web/static")
    app.url_map.merge_slashes = False  # a redirect would trust the Host header
    app.json.sort_keys = False  # type: ignore[attr-defined]  # fields keep the documented order
    # No view or hook is asynchronous, so nothing has to ask.
    app.ensure_sync = lambda function: function  # type: ignore[assignment,method-assign]
    app.config.update(_flask_settings(config))
    trusted = config.trusted_proxies
    app.wsgi_app = ProxyFix(app.wsgi_app, x_for=trusted, x_proto=trusted)  # type: ignore[method-assign]
    init_compression(app)
    log_requests(app, config.log_requests_share)
    refuse_when_busy(app)
    hide_admin(app)
    count_requests(app)
    trace_requests(app)
    add_security_headers(app)
    init_web_sessions(app, config)
    init_browsers(app, config)
    init_csrf(app, config)
    init_admin_passkeys(app)
    init_current(app, config, make_session_factory(make_engine(config)))
    init_body_memory(app)
    init_limits(app, config)
    init_oauth(app)
    init_credential_usage(app)
    init_security_events(app)
    init_paths(app)
    health.init_health(app, config)
    register_error_handlers(app)
    register_filters(app)
    init_static_files(app)
    show_visitors(app)
    _register_routes(app, config.base_url)
    return app


def _flask_settings(config: Config) -> dict[str, object]:
    documents = {
        "": ("Tallystick", "/", "Audit your LLM spend from token counts alone."),
        "ADMIN_": ("Tallystick admin", ADMIN_PREFIX, "For operators, behind the admin token."),
    }
    # Of forms; a view that takes more says so.
    settings: dict[str, object] = {"MAX_CONTENT_LENGTH": MAX_FORM_BYTES}
    for prefix, (title, url_prefix, description) in documents.items():
        info = {"description": description, "x-release": version("tallystick-server")}
        settings |= {
            f"{prefix}API_TITLE": title,
            f"{prefix}API_VERSION": "v1",
            f"{prefix}OPENAPI_VERSION": "3.1.0",
            f"{prefix}OPENAPI_URL_PREFIX": url_prefix,
            f"{prefix}API_SPEC_OPTIONS": {"info": info, "servers": [{"url": config.base_url}]},
        }
    return settings


def _register_routes(app: Flask, base_url: str) -> None:
    def describe_components() -> None:
        for name, schema in report_schemas().items():
            api.spec.components.schema(name, schema)
        _add_schemes(api, security_schemes(base_url))

    api.init_app(app)
    api.describe_later(describe_components)
    api.register_blueprint(ingest.blueprint, url_prefix=INGEST_PREFIX)
    api.register_blueprint(otlp.blueprint, url_prefix=OTLP_PREFIX)
    for resource in _API:
        api.register_blueprint(resource.blueprint, url_prefix=API_PREFIX)
    for page in _DOCUMENTED_PAGES:
        api.register_blueprint(page.blueprint)
    admin_api.init_app(app)
    admin_api.describe_later(partial(_add_schemes, admin_api, admin_schemes()))
    admin_api.register_blueprint(admin.blueprint)
    for plain in _PAGES:
        app.register_blueprint(plain.blueprint)


def _add_schemes(described: Api, schemes: Mapping[str, Any]) -> None:
    for name, scheme in schemes.items():
        described.spec.components.security_scheme(name, scheme)
