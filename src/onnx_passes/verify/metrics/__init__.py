"""How good results are by their purpose."""
