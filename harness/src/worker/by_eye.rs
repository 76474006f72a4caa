//! Approvals of pictures by eye, applied to the records of one pass.

use mlx_rs::{Device, DeviceType};

use mlx_parity_core::approval::{Approval, judge};
use mlx_parity_core::record::Record;
use mlx_parity_core::run_folder::Job;
use mlx_parity_core::spec::Inject;

/// The approvals of a spec, and the device that they are applied on.
pub(super) struct ApprovedByEye {
    approvals: Vec<Approval>,
    device: &'static str,
}

impl ApprovedByEye {
    /// Returns the approvals of a job. Where goldens are injected, pictures differ from those that a person saw, and no
    /// approval applies.
    pub(super) fn of(job: &Job) -> Self {
        let is_free = job.inject == Inject::Declared;
        let device = match Device::try_default().and_then(|device| device.get_type()) {
            Ok(DeviceType::Gpu) => "gpu",
            _ => "cpu",
        };
        Self { approvals: if is_free { job.approvals.clone() } else { Vec::new() }, device }
    }

    /// Approves a failed record if a person has approved exactly its picture.
    pub(super) fn judge(&self, record: &mut Record) {
        judge(&self.approvals, self.device, record);
    }
}
