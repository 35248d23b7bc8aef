"""Our rules in the words of ``ovs-ofctl dump-flows``: see ``emulation.rule_text``."""

from emulation.rule_text import held, rule_text, wanted

__all__ = ["held", "rule_text", "wanted"]
