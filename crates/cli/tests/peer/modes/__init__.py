"""All modes; importing this fills the table."""

from modes import (between, filters, floods, journals, links, names, numbers, own, receivers, silence, streams, texts,
                   turns)

__all__ = ["between", "filters", "floods", "journals", "links", "names", "numbers", "own", "receivers", "silence", "streams",
           "texts", "turns"]
