"""Runs large language models through libquern. Start with Runtime; see README.md of the package."""

from ._errors import Error
from .hub import cached_models, find_model, pull, remove_model
from .model import Adapter, Model, Vocabulary, convert, estimate, show
from .runtime import Runtime, version
from .session import Answer, Evaluation, Request, Sampling, Session
from .tensor import Tensor, run_op
from .training import Trainer, TrainingEvaluation, TrainingStep, evaluate_data, export_adapter, merge
from .weights import imatrix, quantize

__all__ = [
    "Adapter", "Answer", "Error", "Evaluation", "Model", "Request", "Runtime", "Sampling", "Session", "Tensor", "Trainer",
    "TrainingEvaluation", "TrainingStep", "Vocabulary", "cached_models", "convert", "estimate", "evaluate_data", "export_adapter", "find_model", "imatrix",
    "merge", "pull", "quantize", "remove_model", "run_op", "show", "version",
]
