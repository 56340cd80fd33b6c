# For Spack 1.0 and later. It has not been tried with Spack: tools/cluster/CLUSTER.md says what was.
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]  # the clone that this file is a part of
TOPICS = ["01_memory_model", "02_memory_management", "03_access_patterns", "04_bandwidth", "05_unified_memory",
          "06_shared_reduce", "07_texture_readonly"]


class CudaMemoryMeasured(CMakePackage, CudaPackage):
    """Samples that measure what texts claim about CUDA memory."""

    git = REPOSITORY.as_uri()

    # No license(): none has been chosen yet. So the package must not be handed on, as source or as a binary.
    version("main", branch="main")

    variant("cuda", default=True, description="Always on: every sample has kernels")
    variant("checks", default=True, description="Build the self-checks into the samples (--self-check)")

    conflicts("~cuda", msg="every sample has kernels")
    conflicts("cuda_arch=none", msg="name the GPU's compute capability: cuda_arch=90 for 9.0")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("cuda@12.0:")
    depends_on("cxxopts@3.1.1:", type="build")
    depends_on("doctest@2.4.9:", type="build", when="+checks")

    sanity_check_is_file = [f"bin/cuda_memory_{topic}" for topic in TOPICS]

    def cmake_args(self):
        return [
            self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value),
            self.define_from_variant("BUILD_TESTING", "checks"),
        ]
