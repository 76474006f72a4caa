//! The recipes for jq in the guide print what the guide shows.

use std::fs;
use std::process::Command;

use crate::project::{Project, Ran, repository};
use crate::readme::check_sample;

#[test]
#[ignore = "needs jq: `.ci/run` runs it"]
fn every_recipe_prints_what_the_guide_shows() {
    let project = Project::with_port("wrong_eps");
    // Both names of the last recipes, then the run that `latest` points at.
    for name in [Some("before"), Some("after"), None] {
        let mut suite = project.command(&[]);
        suite.envs(name.map(|name| ("PARITY_RUN", name)));
        assert_eq!(suite.output().unwrap().status.code(), Some(101));
    }
    let page = fs::read_to_string(repository().join("docs/src/jq.md")).unwrap();
    let recipes: Vec<&str> = page.lines().filter(|line| line.starts_with("jq ")).collect();
    assert!(recipes.len() > 10);
    for recipe in recipes {
        let ran = Command::new("sh").args(["-c", recipe]).current_dir(project.path("")).output().unwrap();
        let ran = Ran::of(ran);
        ran.is_green();
        check_sample(recipe, &ran.stdout);
    }
}
