//! `Product`: one matrix product of cuBLASLt, planned once: descriptors, layouts and the algorithm that its heuristic picks.

use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
    cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayoutAttribute_t, cudaDataType,
};

use crate::benchmark::Pass;
use crate::cuda::session::{Memory, Session};
use crate::device::Waived;
use gpuplan_hardware::NumberFormat;

/// What NVIDIA advises for Hopper (cuBLAS documentation, "cublasSetWorkspace"); more than older chips need.
pub const WORKSPACE_BYTES: u64 = 32 << 20;

fn refused(call: &str) -> impl Fn(CublasError) -> Waived + '_ {
    move |error| Waived(format!("{call}: {:?}", error.0))
}

/// The library's handle and its scratch memory.
pub struct Products {
    handle: cublasLtHandle_t,
    workspace: Memory,
}

impl Products {
    pub fn new() -> Result<Self, Waived> {
        let workspace = Memory::new(WORKSPACE_BYTES)?;
        Ok(Self { handle: result::create_handle().map_err(refused("cublasLtCreate"))?, workspace })
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: made by `new`, used no more.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// Sizes as frameworks mean them: rows of `m`, `n` and `k` values, the last index next to each other in memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub format: NumberFormat,
    pub pass: Pass,
    /// Products of this shape side by side, as the heads of attention are.
    pub batch: u64,
}

/// cuBLASLt counts columns first, so the product is computed as its transpose: D^T (n x m) = A (n x k) B (k x m), where A is
/// the second operand and B the first one.
pub struct Product {
    description: Description,
    layouts: [Layout; 3],
    algorithm: cublasLtMatmulHeuristicResult_t,
}

/// Given back with the value, also where a later step of planning is refused.
struct Description(cublasLtMatmulDesc_t);

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: made for this value, used no more. A failure has nobody to tell.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

struct Layout(cublasLtMatrixLayout_t);

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

impl Product {
    pub fn new(products: &Products, shape: Shape) -> Result<Self, Waived> {
        let (inputs, output, compute) = types(shape.format)?;
        let (second_is_transposed, first_is_transposed) = transposed(shape);
        let Shape { m, n, k, .. } = shape;
        let description = result::create_matmul_desc(compute, cudaDataType::CUDA_R_32F)
            .map(Description)
            .map_err(refused("cublasLtMatmulDescCreate"))?;
        let sizes = [
            if second_is_transposed { (k, n) } else { (n, k) },
            if first_is_transposed { (m, k) } else { (k, m) },
            (n, m),
        ];
        let layout = |(rows, columns): (u64, u64), kind| {
            let made = result::create_matrix_layout(kind, rows, columns, rows as i64)
                .map(Layout)
                .map_err(refused("cublasLtMatrixLayoutCreate"))?;
            batch(made.0, shape.batch, rows * columns)?;
            Ok::<_, Waived>(made)
        };
        let layouts = [layout(sizes[0], inputs)?, layout(sizes[1], inputs)?, layout(sizes[2], output)?];
        let attributes = cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA;
        transpose(description.0, attributes, second_is_transposed)?;
        transpose(description.0, cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSB, first_is_transposed)?;
        let [a, b, d] = &layouts;
        let algorithm = pick(products, description.0, [a.0, b.0, d.0])?;
        Ok(Self { description, layouts, algorithm })
    }

    /// Puts the product into the stream. The operands lie at `first` and `second`, the result at `out`.
    pub fn launch(
        &self,
        products: &Products,
        session: &Session,
        first: u64,
        second: u64,
        out: u64,
    ) -> Result<(), Waived> {
        let (one, zero) = (1.0_f32, 0.0_f32);
        let at = |address: u64| address as *const c_void;
        // SAFETY: descriptors and algorithm belong together; the caller's memory has the sizes of the shape; the factors are
        // read during the call; the workspace is as large as the algorithm was told.
        let launched = unsafe {
            result::matmul(
                products.handle,
                self.description.0,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                at(second),
                self.layouts[0].0,
                at(first),
                self.layouts[1].0,
                at(out),
                self.layouts[2].0,
                out as *mut c_void,
                self.layouts[2].0,
                &raw const self.algorithm.algo,
                products.workspace.at as *mut c_void,
                WORKSPACE_BYTES as usize,
                session.stream.cast(),
            )
        };
        launched.map_err(refused("cublasLtMatmul"))
    }
}

/// Inputs, result and arithmetic of a format; sums are in fp32.
fn types(format: NumberFormat) -> Result<(cudaDataType, cudaDataType, cublasComputeType_t), Waived> {
    use cublasComputeType_t::{CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    use cudaDataType::{CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F};
    match format {
        NumberFormat::Fp32 => Ok((CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F)),
        NumberFormat::Tf32 => Ok((CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32)),
        NumberFormat::Fp16 => Ok((CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F)),
        NumberFormat::Bf16 => Ok((CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F)),
        NumberFormat::Fp8 => Ok((CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F)),
        NumberFormat::Fp4 | NumberFormat::Int8 => {
            Err(Waived("four-bit and integer products are not measured".to_owned()))
        }
    }
}

/// Whether the second and the first operand lie transposed. A weight is stored as outputs x inputs, so the forward product
/// transposes it; 8-bit products know only this form, and stacks transpose their operands for it.
fn transposed(shape: Shape) -> (bool, bool) {
    match shape.pass {
        _ if shape.format == NumberFormat::Fp8 => (true, false),
        Pass::Forward => (true, false),
        Pass::InputGradient => (false, false),
        Pass::WeightGradient => (false, true),
    }
}

fn transpose(
    description: cublasLtMatmulDesc_t,
    attribute: cublasLtMatmulDescAttributes_t,
    yes: bool,
) -> Result<(), Waived> {
    // `CUBLAS_OP_T` and `CUBLAS_OP_N` of `cublas_api.h`.
    let operation = i32::from(yes);
    // SAFETY: the attribute is a value of this type and size, read during the call.
    let set = unsafe {
        result::set_matmul_desc_attribute(
            description,
            attribute,
            (&raw const operation).cast(),
            size_of_val(&operation),
        )
    };
    set.map_err(refused("cublasLtMatmulDescSetAttribute"))
}

fn batch(layout: cublasLtMatrixLayout_t, count: u64, elements: u64) -> Result<(), Waived> {
    if count <= 1 {
        return Ok(());
    }
    let (count, stride) = (count as i32, elements as i64);
    // SAFETY: both attributes are integers of these sizes, read during the calls.
    let set = unsafe {
        result::set_matrix_layout_attribute(
            layout,
            cublasLtMatrixLayoutAttribute_t::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
            (&raw const count).cast(),
            size_of_val(&count),
        )
        .and_then(|()| {
            result::set_matrix_layout_attribute(
                layout,
                cublasLtMatrixLayoutAttribute_t::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                (&raw const stride).cast(),
                size_of_val(&stride),
            )
        })
    };
    set.map_err(refused("cublasLtMatrixLayoutSetAttribute"))
}

/// The first choice of the library's heuristic, as frameworks take it.
fn pick(
    products: &Products,
    description: cublasLtMatmulDesc_t,
    [a, b, d]: [cublasLtMatrixLayout_t; 3],
) -> Result<cublasLtMatmulHeuristicResult_t, Waived> {
    let preference = result::create_matmul_pref().map_err(refused("cublasLtMatmulPreferenceCreate"))?;
    let attribute = cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    let bytes = WORKSPACE_BYTES as usize;
    // SAFETY: every descriptor is alive; the attribute is a size_t, read during the call; the preference is destroyed once.
    unsafe {
        let set =
            result::set_matmul_pref_attribute(preference, attribute, (&raw const bytes).cast(), size_of_val(&bytes));
        let picked =
            set.and_then(|()| result::get_matmul_algo_heuristic(products.handle, description, a, b, d, d, preference));
        let _ = result::destroy_matmul_pref(preference);
        picked.map_err(refused("cublasLtMatmulAlgoGetHeuristic"))
    }
}
