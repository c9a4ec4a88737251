"""stepwhy inside other tools: callbacks of training frameworks, and loggers of results.

In: a training of Keras, Lightning or Transformers, or a result. Out: a report; what loggers store.

===============================  ==========================================================
`integrations.keras`             `StepwhyCallback` for `fit` of Keras 3
`integrations.tf_keras`          `StepwhyCallback` for `fit` of legacy Keras
`integrations.lightning`         `StepwhyCallback` for the `Trainer` of Lightning
`integrations.transformers`      `StepwhyCallback` for the `Trainer` of Hugging Face
`integrations.mlflow`            `log_result()` into a run of MLflow
`integrations.wandb`             `log_result()` into a run of Weights & Biases
===============================  ==========================================================

Each module imports the package of its name, and this one imports none of them.
"""
