"""Scheduling of workflows on cloud VMs: model, simulator, schedulers, figures.

Begin with `simulator.simulate`, `schedulers.make` and `workload.Workload`, or with
`python -m thesis_lib --help`. Importing the package alone loads none of its modules.
"""
