"""All modes; importing this fills the table."""

from modes import (between, chains, filters, floods, journals, links, names, numbers, own, receivers, silence, streams,
                   texts, turns)

__all__ = ["between", "chains", "filters", "floods", "journals", "links", "names", "numbers", "own", "receivers", "silence",
           "streams", "texts", "turns"]
