"""The fairspine control plane: job description -> Traffic -> Assignment -> Plan -> RuleSet -> switches."""
