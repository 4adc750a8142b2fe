"""Pictures of graphs: what to show of one, where its parts go, and the files that they become.

The room is not called ``draw``, which is the function: importing a package would put it in the place of its namesake.
"""
