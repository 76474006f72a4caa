//! The step machine: shows a step, waits for the learner, checks what was done, and goes on when the check passes.

use std::io::{BufRead, Read};

use super::error::TutorialError;
use super::lessons::{Checked, Enter, Lesson};
use super::workshop::Workshop;
use mlx_parity_core::text::printable::paint;

/// The most bytes of an answer.
const LONGEST: u64 = 1 << 10;

/// Who does the steps.
pub(super) enum Learner<'a> {
    /// A person, whose answers are read from here.
    Person(&'a mut dyn BufRead),
    /// Nobody: every step is solved, and must then pass its check.
    Nobody,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SittingEnd {
    Finished,
    /// The learner left, at the step with this position.
    Left(usize),
}

/// One sitting of a tutorial.
pub(super) struct Sitting<'a> {
    pub(super) lessons: &'a [Lesson],
    pub(super) workshop: &'a Workshop,
    pub(super) learner: Learner<'a>,
    /// Prints.
    pub(super) say: &'a mut dyn FnMut(&str),
    /// Keeps the step to continue with; `None` after the last.
    pub(super) save: &'a mut dyn FnMut(Option<&str>) -> Result<(), TutorialError>,
}

/// What the learner asks for at the prompt.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Check(String),
    Hint,
    Solve,
    Text,
    Leave,
}

impl Sitting<'_> {
    /// Goes through the steps, from the one at `first`.
    pub(super) fn run(mut self, first: usize) -> Result<SittingEnd, TutorialError> {
        for (position, lesson) in self.lessons.iter().enumerate().skip(first) {
            self.show(position, lesson);
            if !self.finish_step(position, lesson)? {
                return Ok(SittingEnd::Left(position));
            }
            (self.save)(self.lessons.get(position + 1).map(|next| next.id))?;
        }
        Ok(SittingEnd::Finished)
    }

    fn show(&mut self, position: usize, lesson: &Lesson) {
        let heading = format!("Step {} of {}: {}", position + 1, self.lessons.len(), lesson.title);
        (self.say)(&format!("\n{}\n\n{}\n", paint(true, "1;36", &heading), lesson.text));
    }

    /// Stays on a step until its check passes; returns `false` if the learner leaves.
    fn finish_step(&mut self, position: usize, lesson: &Lesson) -> Result<bool, TutorialError> {
        loop {
            let (answer, is_solved) = match self.request(position, lesson)? {
                Request::Check(answer) => (answer, false),
                Request::Solve => ((lesson.solve)(self.workshop)?, true),
                Request::Hint => {
                    (self.say)(&format!("{}\n", lesson.hint));
                    continue;
                }
                Request::Text => {
                    self.show(position, lesson);
                    continue;
                }
                Request::Leave => return Ok(false),
            };
            if is_solved && lesson.enter == Enter::Answers {
                (self.say)(&format!("The answer is {answer}.\n"));
            }
            match (lesson.check)(self.workshop, &answer)? {
                Checked::Done(text) => {
                    (self.say)(&format!("{}\n{text}\n", paint(true, "1;32", "Done.")));
                    return Ok(true);
                }
                Checked::NotYet(why) if matches!(self.learner, Learner::Nobody) => {
                    return Err(TutorialError::CheckFailed { step: lesson.id, why });
                }
                Checked::NotYet(why) => {
                    (self.say)(&format!("{} {why}\n", paint(true, "1;33", "Not yet.")));
                }
            }
        }
    }

    fn request(&mut self, position: usize, lesson: &Lesson) -> Result<Request, TutorialError> {
        let Learner::Person(input) = &mut self.learner else { return Ok(Request::Solve) };
        let enter = match lesson.enter {
            Enter::Runs => "Enter runs it",
            Enter::Checks => "Enter checks it",
            Enter::Answers => "Type the answer",
        };
        let prompt =
            format!("[{}/{}] {enter}, or: hint, solve, text, q > ", position + 1, self.lessons.len());
        loop {
            (self.say)(&format!("\n{}", paint(true, "36", &prompt)));
            let mut line = Vec::new();
            let read = input.take(LONGEST).read_until(b'\n', &mut line);
            if read.map_err(|source| TutorialError::Answer { source })? == 0 {
                (self.say)("\n");
                return Ok(Request::Leave);
            }
            let line = String::from_utf8_lossy(&line).trim().to_lowercase();
            match (line.as_str(), lesson.enter) {
                ("h" | "hint" | "?" | "help", _) => return Ok(Request::Hint),
                ("s" | "solve" | "skip", _) => return Ok(Request::Solve),
                ("t" | "text", _) => return Ok(Request::Text),
                ("q" | "quit" | "exit" | "leave", _) => return Ok(Request::Leave),
                ("", Enter::Runs | Enter::Checks) => return Ok(Request::Check(String::new())),
                (_, Enter::Answers) if !line.is_empty() => return Ok(Request::Check(line)),
                _ => (self.say)(EXPLAINED),
            }
        }
    }
}

const EXPLAINED: &str = "
  Enter   runs the command, or checks your change
  hint    tells you more
  solve   does the step for you
  text    shows the step again
  q       leaves; you can continue later
";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const FILE: &str = "done";

    fn is_done(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
        Ok(match workshop.path(FILE).exists() {
            true => Checked::Done("It exists.".into()),
            false => Checked::NotYet("It does not exist.".into()),
        })
    }

    fn do_it(workshop: &Workshop) -> Result<String, TutorialError> {
        fs::write(workshop.path(FILE), "").unwrap();
        Ok(String::new())
    }

    fn is_seven(_: &Workshop, answer: &str) -> Result<Checked, TutorialError> {
        Ok(if answer == "7" { Checked::Done("7.".into()) } else { Checked::NotYet(format!("Not {answer}.")) })
    }

    const LESSONS: &[Lesson] = &[
        Lesson {
            id: "make",
            title: "Make it",
            text: "Make the file.",
            hint: "Use touch.",
            enter: Enter::Checks,
            before: crate::tutorial::files::Changes::FINISHED,
            solve: do_it,
            check: is_done,
        },
        Lesson {
            id: "count",
            title: "Count",
            text: "How many?",
            hint: "More than six.",
            enter: Enter::Answers,
            before: crate::tutorial::files::Changes::FINISHED,
            solve: |_| Ok("7".into()),
            check: is_seven,
        },
    ];

    /// Runs a session with these lines as answers. Returns how it ended, what was printed, and the steps that were saved.
    fn session(
        folder: &tempfile::TempDir,
        first: usize,
        lines: Option<&str>,
    ) -> (Result<SittingEnd, String>, String, Vec<String>) {
        let workshop = Workshop::new(folder.path());
        let (mut printed, mut saved) = (String::new(), Vec::new());
        let mut input = lines.unwrap_or_default().as_bytes();
        let learner = match lines {
            Some(_) => Learner::Person(&mut input),
            None => Learner::Nobody,
        };
        let session = Sitting {
            lessons: LESSONS,
            workshop: &workshop,
            learner,
            say: &mut |text| printed += text,
            save: &mut |step| {
                saved.push(step.unwrap_or("end").to_owned());
                Ok(())
            },
        };
        let ended = session.run(first).map_err(|error| error.to_string());
        (ended, printed, saved)
    }

    #[test]
    fn a_step_stays_until_its_check_passes() {
        let folder = tempfile::tempdir().unwrap();
        let (ended, printed, saved) = session(&folder, 0, Some("\nhint\nwhat\n\n"));
        assert_eq!((ended, saved.len()), (Ok(SittingEnd::Left(0)), 0), "{printed}");
        assert_eq!(printed.matches("It does not exist.").count(), 2, "{printed}");
        assert!(printed.contains("Use touch.") && printed.contains("solve   does the step"), "{printed}");
        fs::write(folder.path().join(FILE), "").unwrap();
        let (ended, printed, saved) = session(&folder, 0, Some("\n6\n\n7\n"));
        assert_eq!(
            (ended, saved),
            (Ok(SittingEnd::Finished), vec!["count".to_owned(), "end".to_owned()]),
            "{printed}"
        );
        assert!(printed.contains("Not 6.") && printed.contains("Done."), "{printed}");
    }

    #[test]
    fn leaving_saves_only_what_is_done() {
        for leave in ["q\n", "quit\n", ""] {
            let folder = tempfile::tempdir().unwrap();
            let (ended, _, saved) = session(&folder, 0, Some(&format!("solve\n{leave}")));
            assert_eq!((ended, saved), (Ok(SittingEnd::Left(1)), vec!["count".to_owned()]));
        }
    }

    #[test]
    fn a_tutorial_continues_at_the_step_it_was_left_at() {
        let folder = tempfile::tempdir().unwrap();
        let (ended, printed, _) = session(&folder, 1, Some("skip\n"));
        assert_eq!(ended, Ok(SittingEnd::Finished));
        assert!(printed.contains("Step 2 of 2: Count") && printed.contains("The answer is 7."), "{printed}");
        assert!(!printed.contains("Make it"), "{printed}");
    }

    #[test]
    fn without_a_learner_every_step_is_solved_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let (ended, printed, saved) = session(&folder, 0, None);
        assert_eq!((ended, saved.len()), (Ok(SittingEnd::Finished), 2), "{printed}");
        assert!(!printed.contains('>'), "nobody is asked: {printed}");
    }

    #[test]
    fn a_solution_that_fails_its_check_is_an_error() {
        let lessons = [Lesson { solve: |_| Ok("8".into()), ..LESSONS[1].clone() }];
        let folder = tempfile::tempdir().unwrap();
        let session = Sitting {
            lessons: &lessons,
            workshop: &Workshop::new(folder.path()),
            learner: Learner::Nobody,
            say: &mut |_| (),
            save: &mut |_| Ok(()),
        };
        let error = session.run(0).unwrap_err();
        assert_eq!(error.to_string(), "step `count` was done, but its check failed: Not 8.");
    }

    #[test]
    fn an_endless_answer_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let long = "6".repeat(5000);
        let (ended, printed, _) = session(&folder, 1, Some(&long));
        assert_eq!(ended, Ok(SittingEnd::Left(1)));
        assert_eq!(printed.matches("Not yet.").count(), 5, "{printed}");
    }
}
