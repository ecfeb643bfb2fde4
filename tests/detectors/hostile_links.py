"""Labels that some mail program or chat makes a link of."""

from typing import Final

from tests.cases import data_of

LINKS: Final = tuple(data_of(__file__)["links"])
