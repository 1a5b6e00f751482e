"""Cloud workflow scheduling for courses and theses: model, simulator, schedulers, learning, figures.

Importing the package registers the Gymnasium environment `CloudWorkflow-v0` and nothing else;
begin with `thesis_lib.formats`, `thesis_lib.simulator` and `thesis_lib.schedulers`.
"""

import gymnasium

gymnasium.register("CloudWorkflow-v0", entry_point="thesis_lib.env:CloudWorkflowEnv")
