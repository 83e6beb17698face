"""PyTorch nets as local models: described once, trained one by one or all at once."""

from fedrelax.models.torch.model import MLP, TorchModel, linear, mlp
from fedrelax.models.torch.node import TorchNode, unsupported_reason

__all__ = ["MLP", "TorchModel", "TorchNode", "linear", "mlp", "unsupported_reason"]
