"""The interfaces of other tools, for scripts that change their import lines only.

Every word of theirs has a fate: it is honoured, accepted with a Notice (it asks for something that our method does not
need), or refused with the reason and what to do instead. Nothing is dropped in silence.
"""

from bitpress.compat._fates import Fate, Notice, Word

__all__ = ["Fate", "Notice", "Word"]
