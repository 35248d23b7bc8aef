"""Short names of policies with options, as scenarios and ``fairspine emulate`` take them."""

SPLIT = "+split"
"""At the end of the name of a policy that splits flows: with the largest number of splits."""

SHIFTS = "+shifts"
"""At the end of the name of a policy that advises shifts: jobs with computing times begin their iterations then."""

PACED = "+paced"
"""At the end of the name of a policy in an experiment: hosts keep the paces of its plans."""

WINDOWS = "+windows"
"""At the end of the name of a policy: hosts cannot pace, and keep windows by the paces of its plans."""

METERS = "+meters"
"""At the end of the name of a policy in the packet engine: meters of switches keep flows to the paces of its plans."""

HEDERA = "hedera-"
"""Before the name of a policy that estimates demand, in an experiment: Hedera's loop runs it, and no job is pushed."""
