"""Export of fabrics and jobs to the formats of other tools."""
