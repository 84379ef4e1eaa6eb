"""Trees: what they are, how they are written and drawn, and what their nodes are worth.

    forest      Forest, many ordered trees as flat arrays (its compiled loops are in `traversals`)
    brackets    trees as text and back; `binary`: binary trees over the same tokens; `links`: nodes that quote nodes
    values      values of any plain type: exact equality, tables of distinct values, `renumber`
    operators   Operator, and `evaluate`, `denote`, `steps`, `dependency` over whole forests
    rules       the compiled rules of the built-in operators; `calls`: each distinct call is worked out once
    growing     random trees of a given depth; `drawing`, `layout`: trees on a terminal and as SVG

This room may import `base` and nothing else of the package.
"""
