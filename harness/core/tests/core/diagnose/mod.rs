//! Every kind of cause and of fact is found in an actual that is wrong in this way; and errors that nothing explains.

mod facts;
mod front_ends;
mod functions;
mod kit;
mod large_recipes;
mod order;
mod recipe_kit;
mod recipes;
mod recipes_attention;
mod rotary;
mod stages;
mod training;
mod unexplained;
mod values;
mod wrong_causes;
