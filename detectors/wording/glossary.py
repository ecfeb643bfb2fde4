"""The words of the product and of its money, for the page `/glossary` and for docs/glossary.md.

Tooltips have their words from the same places: `money.FIGURES` and `names.CONFIDENCE_WORDS`.
"""

from collections.abc import Mapping
from typing import Final

from detectors.wording.money import FIGURES

# Text between backticks is code.
PRODUCT: Final[Mapping[str, str]] = {
    "call": "One request to a language model, with its token counts.",
    "usage record": "One call as JSON or CSV: counts, times and labels, never text.",
    "dated in the future": (
        "More than a day ahead, by a wrong clock. Such calls are in no audit of an account until "
        "their time comes."
    ),
    "log": "A file of usage records, or of a provider's own responses without their text.",
    "import": "A batch or an uploaded file, seen as what it brings to its account's calls.",
    "connection": (
        "An admin key of an organization at a model provider, with which we pull its reports."
    ),
    "audit": (
        "One processing of a batch or a log. Every batch that you send and every file that you "
        "upload becomes an audit."
    ),
    "ledger": (
        "The file in which `tallystick agents` and `tallystick watch` keep the calls of coding "
        "agents on a machine; nothing else."
    ),
    "report": (
        "The result of an audit: one JSON document, rendered as a page, PDF, CSV, notebook or "
        "terminal output."
    ),
    "detector": "A rule that finds one kind of waste.",
    "finding": (
        "One place where a detector found waste: a route, a model, a fix and its potential savings."
    ),
    "route": "A call's work area: its `tag`, or else its `endpoint`, or else its model.",
    "evidence": "The most expensive calls of a finding.",
    "threshold": "A number in a detector's definition that you can change.",
    "Data quality": "The section of a report that says how much of the log was usable and priced.",
    "How the detectors work": "The section of a report that states each detector's rules.",
    "How we calculated this": "The formula behind a figure, with its numbers.",
}
MONEY: Final[Mapping[str, str]] = {
    **{figure.label.lower(): figure.definition for figure in FIGURES.values()},
    "billed": "What a provider's cost report says.",
    "reported": (
        "What a provider's usage report says, at list price. It is compared with calls and never "
        "added to them."
    ),
    "counted": "What your calls come to, at list price.",
    "coverage": "Tokens of your calls as a share of the tokens that the provider reports.",
    "not sent": (
        "Usage that a provider reports and no call covers. Spend has it once, as routes that "
        "begin with these words."
    ),
    "list-price cost": "List price times counts.",
    "projected": (
        "The dollars of the last 30 days; of a shorter log, times 30 days over the time that it "
        "covers."
    ),
    "remaining spend": "The bill after all avoidable spend is gone.",
    "no comparison": (
        "The period before lacks more than a tenth of the days with data that the later one has."
    ),
    "worth checking": (
        "Findings without dollars, in one line for each kind. No count of findings includes them."
    ),
    "not priced": "A call without a known price. It is counted, and excluded from dollar figures.",
    "negotiated rate": (
        "A discount or a fixed rate from your contract that replaces the list price."
    ),
    "service tier": "`batch`, `flex`, `priority` or `fast`, as the model provider's log names it.",
    "cheaper model": "The model a finding suggests, from the same family (`suggested_model`).",
    "credit": "Pays for one uploaded audit.",
}
