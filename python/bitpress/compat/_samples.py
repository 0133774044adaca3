"""How many samples the scripts of other tools learn from."""

from typing import Any, Dict, Mapping

ALL_SAMPLES = 1_000_000_000  # Quark's own word for it


def learning_from_all(settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Other tools learn from all that a reader gives where nothing says how many; bitpress learns from 100 then."""
    return {"finetune_samples": ALL_SAMPLES, **settings} if "finetune" in settings else dict(settings)
