"""Local proofs of one application: cheap methods that compare the removed nodes with the added ones."""
