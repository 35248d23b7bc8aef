"""Short names of policies with options, as scenarios and ``fairspine emulate`` take them."""

SPLIT = "+split"
"""At the end of the name of a policy that splits flows: with the largest number of splits."""

SHIFTS = "+shifts"
"""At the end of ``fair``: jobs with computing times begin their iterations when the plan advises."""

HEDERA = "hedera-"
"""Before ``first_fit`` or ``annealing`` in an experiment: Hedera's loop with this placement, and no job is pushed."""

HEDERA_PLACEMENTS = ("first_fit", "annealing")
