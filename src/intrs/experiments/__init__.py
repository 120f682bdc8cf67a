"""The paper's experiments from one plan: what to sample (`plan`), sampling it once (`run`), tables (`tables`)."""
