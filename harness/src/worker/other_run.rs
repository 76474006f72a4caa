//! The run that a twin is compared with: its recorded actuals take the place of goldens.

use std::collections::HashMap;
use std::sync::Arc;

use mlx_parity_core::diagnose::{KnownTensor, KnownTensors};
use mlx_parity_core::gate::Class;
use mlx_parity_core::record::Record;
use mlx_parity_core::run_folder::{Folder, Line};
use mlx_parity_core::spec::{Spec, hit_name};
use mlx_parity_core::tensor::{Tensor, TensorFile};
use mlx_parity_core::text::error_chain;

/// The records and actuals of a run that has ended.
#[derive(Debug)]
pub(super) struct OtherRun {
    /// The run's id, such as `qwen3/decoder`.
    id: String,
    folder: Folder,
    /// The records by the name of their hit.
    records: HashMap<String, Arc<Record>>,
    /// The hits in the order of the run.
    order: Vec<String>,
}

impl OtherRun {
    /// Reads the records of the run that `spec` is compared with.
    ///
    /// # Errors
    /// When the folder of the run cannot be read, in words.
    pub(super) fn open(spec: &Spec, folder: Option<&Folder>) -> Result<Option<Self>, String> {
        let (Some(twin), Some(folder)) = (&spec.twin, folder) else { return Ok(None) };
        let lines = folder.lines().map_err(|error| error_chain(&error))?;
        let (mut records, mut order) = (HashMap::new(), Vec::new());
        for line in lines {
            if let Line::Checkpoint(record) = line {
                let name = hit_name(&record.checkpoint, record.hit).into_owned();
                order.push(name.clone());
                records.insert(name, record);
            }
        }
        Ok(Some(Self { id: twin.of.clone(), folder: folder.clone(), records, order }))
    }

    /// Returns the run's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the checkpoints in the order in which the run first reached them.
    pub(super) fn order(&self) -> Vec<&str> {
        let first = self.order.iter().filter_map(|name| self.records.get(name));
        first.filter(|record| record.hit == 0).map(|record| record.checkpoint.as_str()).collect()
    }

    /// Returns the record of a hit.
    ///
    /// # Errors
    /// The class and the text of the failure, when the run did not reach the hit.
    pub(super) fn record(&self, name: &str, hit: u64) -> Result<&Record, (Class, String)> {
        let found = self.records.get(&*hit_name(name, hit));
        found.map(|record| &**record).ok_or_else(|| {
            let hit = if hit == 0 { String::new() } else { format!(" {} times", hit + 1) };
            (Class::Missing, format!("`{}`, which it is compared with, did not reach this tap{hit}", self.id))
        })
    }

    /// Returns the tensor of a hit.
    ///
    /// # Errors
    /// The class and the text of the failure, when the run did not reach the hit or kept no tensor there.
    pub(super) fn tensor(&self, name: &str, hit: u64) -> Result<Tensor, (Class, String)> {
        let record = self.record(name, hit)?;
        if let Some(why) = &record.not_kept {
            return Err((Class::Missing, format!("`{}` kept no tensor here: {why}", self.id)));
        }
        read(&self.folder, name, hit)
            .map_err(|error| (Class::Missing, format!("`{}` kept no tensor here: {error}", self.id)))
    }
}

fn read(folder: &Folder, name: &str, hit: u64) -> Result<Tensor, String> {
    let file = TensorFile::open(folder.actual(name, hit)).map_err(|error| error_chain(&error))?;
    let tensor = file.names().next().map(ToOwned::to_owned).ok_or("the file has no tensor")?;
    file.get(&tensor).map_err(|error| error_chain(&error))
}

/// The tensors of the other run around one hit, for the search of causes.
pub(super) struct OtherTensors<'a> {
    run: &'a OtherRun,
    before: Vec<KnownTensor>,
    after: Vec<KnownTensor>,
}

impl<'a> OtherTensors<'a> {
    /// Returns the tensors around the hit `name`; none where only parts of the tensors correspond.
    pub(super) fn new(run: &'a OtherRun, name: &str, is_whole: bool) -> Self {
        let known = |name: &String| {
            let actual = run.records.get(name)?.actual.clone()?;
            Some(KnownTensor { name: name.clone(), dtype: actual.dtype, shape: actual.shape })
        };
        let at = run.order.iter().position(|other| other == name).filter(|_| is_whole);
        let (before, after) = at.map_or((&[][..], &[][..]), |at| (&run.order[..at], &run.order[at + 1..]));
        Self {
            run,
            before: before.iter().rev().filter_map(known).collect(),
            after: after.iter().filter_map(known).collect(),
        }
    }
}

impl KnownTensors for OtherTensors<'_> {
    fn before(&self) -> &[KnownTensor] {
        &self.before
    }

    fn after(&self) -> &[KnownTensor] {
        &self.after
    }

    fn tensor(&self, other: &KnownTensor) -> Option<Tensor> {
        let record = self.run.records.get(&other.name)?;
        self.run.tensor(&record.checkpoint, record.hit).ok()
    }
}
