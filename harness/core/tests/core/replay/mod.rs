//! Recipes of fixture sets, evaluated: sound ones reproduce their goldens, hostile ones do no harm.

mod fixtures;
mod hostile;
