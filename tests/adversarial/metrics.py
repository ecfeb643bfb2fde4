"""Adversarial requests of agents' metrics, in protobuf and JSON: functions of a size, as of spans.

Each part can say a lot, which all parts below it share: a resource, a scope, or a metric.
"""

from typing import Any, Final

from tests.adversarial.files import Attack
from tests.adversarial.spans import field

START: Final = 1_772_442_900  # seconds since 1970
_NS: Final = START * 10**9
_NAME: Final = b"claude_code.token.usage"
_LARGE: Final = 20_000  # bytes of a data point that has a lot


class Protobuf:
    """Each part as the content of a field, and lists of them."""

    @staticmethod
    def fill(unit: bytes, size: int) -> bytes:
        return unit * max(1, size // len(unit))

    @staticmethod
    def attribute(key: bytes, value: bytes, number: int = 7) -> bytes:
        return field(number, field(1, key) + field(2, value))

    @staticmethod
    def text(value: bytes) -> bytes:
        return field(1, value)

    @staticmethod
    def maps(depth: int) -> bytes:
        value = field(1, b"v")
        for _ in range(depth):
            value = field(6, field(1, field(1, b"k") + field(2, value)))
        return value

    @classmethod
    def point(cls, more: bytes = b"", model: bytes = b"m") -> bytes:
        times = b"\x11" + _NS.to_bytes(8, "little") + b"\x19" + _NS.to_bytes(8, "little")
        labels = cls.attribute(b"model", field(1, model)) + cls.attribute(
            b"type", field(1, b"input")
        )
        return field(1, times + b"\x31" + (5).to_bytes(8, "little") + labels + more)

    @staticmethod
    def metric(points: bytes) -> bytes:
        return field(2, field(1, _NAME) + field(7, points + b"\x10\x02\x18\x01"))

    @staticmethod
    def scope(metrics: bytes, name: bytes = b"") -> bytes:
        return field(2, field(1, field(1, name)) + metrics)

    @classmethod
    def resource(cls, scopes: bytes, said: bytes = b"") -> bytes:
        return field(1, field(1, said) + scopes)

    @classmethod
    def said(cls, size: int) -> bytes:
        """Return attributes of a resource, which is read up to 64 KiB."""
        size = min(size, 60_000)
        names = (b"n%07d" % number for number in range(size // 20))
        return b"".join(cls.attribute(name, field(1, b"v"), number=1) for name in names)

    @staticmethod
    def request(resources: bytes) -> bytes:
        return resources


class Json:
    """The same in JSON."""

    @staticmethod
    def fill(unit: bytes, size: int) -> bytes:
        return b",".join([unit] * max(1, size // (len(unit) + 1)))

    @staticmethod
    def attribute(key: bytes, value: bytes) -> bytes:
        return b',{"key":"%s","value":%s}' % (key, value)

    @staticmethod
    def text(value: bytes) -> bytes:
        return b'{"stringValue":"%s"}' % value

    @staticmethod
    def maps(depth: int) -> bytes:
        start = b'{"kvlistValue":{"values":[{"key":"k","value":'
        return start * depth + b"{}" + b"}]}}" * depth

    @classmethod
    def point(cls, more: bytes = b"", model: bytes = b"m") -> bytes:
        labels = b'{"key":"model","value":%s}' % cls.text(model)
        labels += cls.attribute(b"type", cls.text(b"input")) + more
        return (
            b'{"startTimeUnixNano":%d,"timeUnixNano":%d,"asInt":5,"attributes":[' % (_NS, _NS)
            + labels
            + b"]}"
        )

    @staticmethod
    def metric(points: bytes) -> bytes:
        data = b'{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[%s]}' % points
        return b'{"name":"%s","sum":%s}' % (_NAME, data)

    @staticmethod
    def scope(metrics: bytes, name: bytes = b"") -> bytes:
        return b'{"scope":{"name":"%s"},"metrics":[%s]}' % (name, metrics)

    @staticmethod
    def resource(scopes: bytes, said: bytes = b"") -> bytes:
        return b'{"resource":{"attributes":[%s]},"scopeMetrics":[%s]}' % (said, scopes)

    @classmethod
    def said(cls, size: int) -> bytes:
        names = (b"n%07d" % number for number in range(size // 45))
        return b"{}" + b"".join(cls.attribute(name, cls.text(b"v")) for name in names)

    @staticmethod
    def request(resources: bytes) -> bytes:
        return b'{"resourceMetrics":[%s]}' % resources


def _attacks(of: Any) -> dict[str, Attack]:
    """Return the attacks in one encoding, the parts of which `of` makes."""

    def whole(metrics: bytes, name: bytes = b"", said: bytes = b"") -> bytes:
        return bytes(of.request(of.resource(of.scope(metrics, name), said)))

    def points(unit: bytes) -> Attack:
        return lambda size: whole(of.metric(of.fill(unit, size)))

    point = of.point()
    numbered = b"".join(of.attribute(b"n%d" % number, of.text(b"v")) for number in range(500))
    texts = of.attribute(b"n", of.text(b"s" * _LARGE))
    return {
        "data points": points(point),
        "data points with attributes": points(of.point(numbered)),
        "data points with a long text": points(of.point(texts)),
        "data points with maps in maps": points(of.point(of.attribute(b"n", of.maps(20)))),
        "data points with maps that are too deep": points(
            of.point(of.attribute(b"n", of.maps(300)))
        ),
        "data points that are too large": points(of.point(texts * 4)),
        "data points without a model": points(of.point(model=b"")),
        "metrics": lambda size: whole(of.fill(of.metric(point), size)),
        "scopes": lambda size: of.request(of.resource(of.fill(of.scope(of.metric(point)), size))),
        "resources": lambda size: of.request(
            of.fill(of.resource(of.scope(of.metric(point))), size)
        ),
        "data points of a long scope": lambda size: whole(
            of.metric(of.fill(point, size // 2)), name=b"s" * min(60_000, size // 2)
        ),
        "data points of a large resource": lambda size: whole(
            of.metric(of.fill(point, size // 2)), said=of.said(size // 2)
        ),
        "metrics of a large resource": lambda size: whole(
            of.fill(of.metric(point), size // 2), said=of.said(size // 2)
        ),
        "scopes of a large resource": lambda size: of.request(
            of.resource(of.fill(of.scope(of.metric(point)), size // 2), of.said(size // 2))
        ),
    }


PROTOBUF_METRICS: Final = _attacks(Protobuf)
JSON_METRICS: Final = {
    **_attacks(Json),
    "malformed data points": lambda size: Json.request(
        Json.resource(Json.scope(Json.metric(Json.fill(b'{"flags":""}', size))))
    ),
    "empty data points": lambda size: Json.request(
        Json.resource(Json.scope(Json.metric(Json.fill(b"{}", size))))
    ),
}
