"""What a run did to a model: versions of nodes and values, and the events that brought and took them."""
