"""The commands of `python -m thesis_lib`, one file each.

Every file has NAME, HELP, `add_arguments(parser)` and `run(arguments)`. Results go to
stdout, notes and progress bars to stderr; bad input raises WorkflowError.
"""
