"""Trees and forests of scikit-learn, grown for all nodes at once.

``TreeNode`` is the local model. Where numba is installed (extra ``fast``), the trees of all nodes
are grown in a compiled loop over sorted columns; otherwise, and where ``unsupported_reason`` has a reason,
scikit-learn fits them one by one. Both give the same trees, except that they
can differ where several splits are equally good and a feature has repeated values, because scikit-learn
then adds in the order of an unstable sort; among equal splits the loop takes the first feature drawn
and the lowest threshold.
"""

from fedrelax.models.trees.node import TreeNode
from fedrelax.models.trees.rules import is_forest, is_tree, unsupported_reason

__all__ = ["TreeNode", "is_forest", "is_tree", "unsupported_reason"]
