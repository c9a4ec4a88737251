"""Names of TensorFlow and Keras."""

from __future__ import annotations

from stepwhy.record.framework_names.name import Name

_TF1 = "sessions of TensorFlow"
_TF1_QUEUES = "how full the queues of a session are"
_TF2_WINDOW = "operations of profiled TensorFlow steps"
_TF_DATA = "waits for elements of tf.data"
_TF_STAGES = "the stages of a tf.data pipeline as they are written"
_SESSION = "m.Session(graph=__import__('tensorflow').Graph())"
_DATASET = "__import__('tensorflow').data.Dataset.range(2)"
TENSORFLOW = (
    Name("tensorflow.python.client.session", "BaseSession.run", _TF1),
    Name("tensorflow.python.client.session", "BaseSession.make_callable", _TF1),
    Name(
        "tensorflow.python.client.session",
        "Session()._target",
        "that a session runs on another server",
        f"hasattr({_SESSION}, '_target')",
    ),
    *(
        Name(
            "tensorflow.python.client.session",
            f"Session().{name}",
            lost,
            f"hasattr({_SESSION}, '{name}')",
        )
        for name, lost in (
            ("_session", _TF1_QUEUES),
            ("_closed", _TF1_QUEUES),
            ("_config", "how many threads a session may use"),
        )
    ),
    Name(
        "tensorflow.python.framework.ops",
        "Graph().version",
        "growth of the graph of a session",
        "m.Graph().version >= 0",
    ),
    Name(
        "tensorflow.python.framework.ops",
        "Operation._device_assignments",
        "device scopes of the operations of a graph",
    ),
    *(
        Name("tensorflow.python.client.pywrap_tf_session", name, _TF1_QUEUES)
        for name in (
            "TF_NewBufferFromString",
            "TF_DeleteBuffer",
            "TF_SessionMakeCallable",
            "TF_SessionRunCallable",
        )
    ),
    Name(
        "tensorflow.python.eager.polymorphic_function.polymorphic_function",
        "Function._python_function",
        "calls of TensorFlow functions",
        "callable(m.function(lambda: 1)._python_function) and callable(m.Function.__call__)",
    ),
    Name(
        "tensorflow.python.eager.polymorphic_function.tracing_compilation",
        "_create_concrete_function",
        "traces of TensorFlow functions, and why they are traced again",
    ),
    *(
        Name("tensorflow.python.data.ops.iterator_ops", f"OwnedIterator.{name}", _TF_DATA)
        for name in ("_create_iterator", "_next_internal")
    ),
    Name(
        "tensorflow.python.data.ops.iterator_ops",
        "OwnedIterator()._dataset",
        "which data set an iterator reads",
        f"iter({_DATASET})._dataset is not None",
    ),
    Name(
        "tensorflow.python.data.experimental.ops.iterator_model_ops",
        "get_model_proto",
        "how full the buffers of tf.data are",
    ),
    Name(
        "tensorflow.python.data.ops.dataset_ops",
        "DatasetV2._inputs",
        _TF_STAGES,
        f"callable({_DATASET}.repeat()._inputs)",
    ),
    Name(
        "tensorflow.python.data.ops.dataset_ops",
        "DatasetV2._functions",
        _TF_STAGES,
        f"callable({_DATASET}.repeat()._functions)",
    ),
    Name(
        "tensorflow.python.profiler.profiler_v2",
        "_profiler",
        _TF2_WINDOW,
        "hasattr(m, '_profiler')",
    ),
    Name(
        "tensorflow.python.profiler.internal._pywrap_profiler",
        "ProfilerSession.export_to_tb",
        _TF2_WINDOW,
    ),
    Name("tensorflow.python.profiler.internal._pywrap_traceme", "TraceMe", _TF2_WINDOW),
    Name("tensorflow.python.eager.context", "executing_eagerly", "calls of TensorFlow functions"),
)
"""Names that the observers of TensorFlow use."""

_FIT = "steps of Keras' fit"
_EVALUATIONS = "evaluations during a Keras training"
_EVENTS = (
    "on_epoch_begin",
    "on_epoch_end",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_train_end",
)
KERAS = (
    *(Name("keras.src.callbacks.callback_list", f"CallbackList.{e}", _FIT) for e in _EVENTS),
    Name("keras.src.backend.config", "backend", _FIT),
    Name("keras.src.optimizers.base_optimizer", "BaseOptimizer.apply", "updates by Keras"),
    Name("keras.src.optimizers.base_optimizer", "BaseOptimizer.build", "types of parameters"),
    Name("keras.src.trainers.epoch_iterator", "EpochIterator", "examples in a batch of fit"),
    Name("keras.src.models.model", "Model.evaluate", _EVALUATIONS),
    *(Name("tf_keras.src.callbacks", f"CallbackList.{e}", _FIT) for e in _EVENTS),
    Name("tf_keras.src.optimizers.optimizer", "Optimizer.apply_gradients", "updates by Keras"),
    Name("tf_keras.src.optimizers.optimizer", "Optimizer.build", "types of parameters"),
    Name("tf_keras.src.engine.training", "Model.evaluate", _EVALUATIONS),
)
"""Names that the observers of Keras use."""
