"""Each shape of raw log, told by its members alone, object by object: one log may mix them."""

from detectors.scrub.calls import Sighting
from detectors.scrub.gateways import langfuse, litellm
from detectors.scrub.nodes import Node
from detectors.scrub.vendors import batch, claude_code, exchange, node_of


def sight(node: Node) -> Sighting | str:
    """What the object says of a call, or why it is none that was billed."""
    if isinstance(node.message, Node) and node.message.usage is not None:
        return claude_code(node, node.message)
    if isinstance(node.usageDetails or node.usage_details, dict) or node.promptTokens is not None:
        return langfuse(node)
    if node.call_type is not None:
        return litellm(node)
    answer = node.response if isinstance(node.response, Node | str) else None
    response = node_of(answer)
    if isinstance(response.body, Node):
        return batch(node, response.body)
    if isinstance(node.result, Node):
        return batch(node, node_of(node.result.message))
    if answer is not None or node.request is not None:
        return exchange(node, node_of(node.request), response)
    return exchange(node, node, node)
