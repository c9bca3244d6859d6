"""The evaluation of coassoc: the published tables, data sets, known truth, speed and scale. Not part of the wheel."""
