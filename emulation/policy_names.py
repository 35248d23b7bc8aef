"""Short names of policies with options, as scenarios and ``fairspine emulate`` take them."""

SPLIT = "+split"
"""At the end of the name of a policy that splits flows: with the largest number of splits."""

SHIFTS = "+shifts"
"""At the end of ``fair``: jobs with computing times begin their iterations when the plan advises."""
