"""Random models with many operators, random pipelines, and two engines that judge the results."""
