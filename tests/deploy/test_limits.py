"""The limits of the proxies in `deploy/`, which follow those of the service."""

import re
from typing import Final

from detectors.contract import MAX_BATCH_V2_BYTES
from tests.deploy.manifests import DEFAULTS, DEPLOY, load

MIB: Final = 2**20
# What multipart/form-data adds to a file.
FORM_BYTES: Final = MIB


def test_the_proxies_pass_what_the_service_takes_and_little_more() -> None:
    nginx = (DEPLOY / "nginx.conf").read_text()
    first, *uploads = map(int, re.findall(r"client_max_body_size (\d+)m;", nginx))
    assert 0 < first * MIB - MAX_BATCH_V2_BYTES < 10 * MIB
    (caddy,) = map(int, re.findall(r"max_size (\d+)MB", (DEPLOY / "Caddyfile").read_text()))
    values = load(DEPLOY / "helm" / "tallystick" / "values.yaml")["ingress"]["annotations"]
    ingress = int(values["nginx.ingress.kubernetes.io/proxy-body-size"].removesuffix("m"))
    largest = DEFAULTS["max_upload_bytes"] + FORM_BYTES
    assert len(uploads) == 2
    for limit in (*(each * MIB for each in (*uploads, ingress)), caddy * 10**6):
        assert 0 <= limit - largest < 10 * MIB
