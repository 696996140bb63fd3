"""Recipes: model families, what they need, and what they are started with."""

from wizard.recipes.args import ArgWithReason, LeftOut, RecipeArgs, args_for, env_for, serve_args
from wizard.recipes.book import RecipeBook, load
from wizard.recipes.types import Feature, Hardware, ModelFacts, Recipe, RecipeProblem, Variant

__all__ = [
    "ArgWithReason",
    "Feature",
    "Hardware",
    "LeftOut",
    "ModelFacts",
    "Recipe",
    "RecipeArgs",
    "RecipeBook",
    "RecipeProblem",
    "Variant",
    "args_for",
    "env_for",
    "load",
    "serve_args",
]
