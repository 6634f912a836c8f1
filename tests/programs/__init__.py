"""Random programs without faults, run on a real server and in a model of what each call returns or raises."""
