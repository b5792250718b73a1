"""All modes; importing this fills the table."""

from modes import (filters, floods, journals, links, names, numbers, own, receivers, silence, streams, texts,
                   turns)

__all__ = ["filters", "floods", "journals", "links", "names", "numbers", "own", "receivers", "silence", "streams",
           "texts", "turns"]
