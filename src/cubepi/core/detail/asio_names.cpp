// A library that clang has built is linked by programs that g++ has built, and the reverse: clang 19 builds what ships, g++ 12 is
// what Debian 12 has. The two mangle six functions of Boost.Asio differently (g++ writes a defaulted template argument
// that clang leaves out), so that the program finds no any_io_executor::prefer in the library. These are the same
// functions under the other compiler's names; tests/consumer/own_loop.cpp needs them.
#include <boost/asio/any_io_executor.hpp>
#include <boost/version.hpp>

#if defined(BOOST_ASIO_SEPARATE_COMPILATION) && BOOST_VERSION / 100 == 1081

namespace cubepi::detail {

namespace {

using boost::asio::any_io_executor;
namespace execution = boost::asio::execution;

}  // namespace

// A member function is called as a free one with its object first.
#define CUBEPI_UNDER_OTHER_NAME(function, Property, name)                                          \
    any_io_executor other_##function(const any_io_executor* self, const Property& property,        \
                                     int) __asm__(name);                                           \
    any_io_executor other_##function(const any_io_executor* self, const Property& property, int) { \
        return self->function(property, 0);                                                        \
    }

// clang-format off
#if defined(__clang__)
CUBEPI_UNDER_OTHER_NAME(require, execution::blocking_t::never_t,
    "_ZNK5boost4asio15any_io_executor7requireINS0_9execution6detail8blocking7never_tILi0EEEEES1"
    "_RKT_NS0_10constraintIXsrNS0_6traits14require_memberIRKNS3_12any_executorIJNS3_12context_a"
    "s_tIRNS0_17execution_contextEEES7_NS3_11prefer_onlyINS5_10possibly_tILi0EEEEENSJ_INS4_16ou"
    "tstanding_work9tracked_tILi0EEEEENSJ_INSN_11untracked_tILi0EEEEENSJ_INS4_12relationship6fo"
    "rk_tILi0EEEEENSJ_INSU_14continuation_tILi0EEEEEEEESA_vEE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::blocking_t::possibly_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail8blocking10possibly_tILi0EEEE"
    "ES1_RKT_NS0_10constraintIXsrNS0_6traits13prefer_memberIRKNS3_12any_executorIJNS3_12context"
    "_as_tIRNS0_17execution_contextEEENS5_7never_tILi0EEENS3_11prefer_onlyIS7_EENSL_INS4_16outs"
    "tanding_work9tracked_tILi0EEEEENSL_INSN_11untracked_tILi0EEEEENSL_INS4_12relationship6fork"
    "_tILi0EEEEENSL_INSU_14continuation_tILi0EEEEEEEESA_vEE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::outstanding_work_t::tracked_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail16outstanding_work9tracked_tI"
    "Li0EEEEES1_RKT_NS0_10constraintIXsrNS0_6traits13prefer_memberIRKNS3_12any_executorIJNS3_12"
    "context_as_tIRNS0_17execution_contextEEENS4_8blocking7never_tILi0EEENS3_11prefer_onlyINSJ_"
    "10possibly_tILi0EEEEENSM_IS7_EENSM_INS5_11untracked_tILi0EEEEENSM_INS4_12relationship6fork"
    "_tILi0EEEEENSM_INSU_14continuation_tILi0EEEEEEEESA_vEE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::outstanding_work_t::untracked_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail16outstanding_work11untracked"
    "_tILi0EEEEES1_RKT_NS0_10constraintIXsrNS0_6traits13prefer_memberIRKNS3_12any_executorIJNS3"
    "_12context_as_tIRNS0_17execution_contextEEENS4_8blocking7never_tILi0EEENS3_11prefer_onlyIN"
    "SJ_10possibly_tILi0EEEEENSM_INS5_9tracked_tILi0EEEEENSM_IS7_EENSM_INS4_12relationship6fork"
    "_tILi0EEEEENSM_INSU_14continuation_tILi0EEEEEEEESA_vEE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::relationship_t::fork_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail12relationship6fork_tILi0EEEE"
    "ES1_RKT_NS0_10constraintIXsrNS0_6traits13prefer_memberIRKNS3_12any_executorIJNS3_12context"
    "_as_tIRNS0_17execution_contextEEENS4_8blocking7never_tILi0EEENS3_11prefer_onlyINSJ_10possi"
    "bly_tILi0EEEEENSM_INS4_16outstanding_work9tracked_tILi0EEEEENSM_INSQ_11untracked_tILi0EEEE"
    "ENSM_IS7_EENSM_INS5_14continuation_tILi0EEEEEEEESA_vEE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::relationship_t::continuation_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail12relationship14continuation_"
    "tILi0EEEEES1_RKT_NS0_10constraintIXsrNS0_6traits13prefer_memberIRKNS3_12any_executorIJNS3_"
    "12context_as_tIRNS0_17execution_contextEEENS4_8blocking7never_tILi0EEENS3_11prefer_onlyINS"
    "J_10possibly_tILi0EEEEENSM_INS4_16outstanding_work9tracked_tILi0EEEEENSM_INSQ_11untracked_"
    "tILi0EEEEENSM_INS5_6fork_tILi0EEEEENSM_IS7_EEEEESA_vEE8is_validEiE4typeE")
#else
CUBEPI_UNDER_OTHER_NAME(require, execution::blocking_t::never_t,
    "_ZNK5boost4asio15any_io_executor7requireINS0_9execution6detail8blocking7never_tILi0EEEEES1"
    "_RKT_NS0_10constraintIXsr6traits14require_memberIRKNS3_12any_executorIJNS3_12context_as_tI"
    "RNS0_17execution_contextEEES7_NS3_11prefer_onlyINS5_10possibly_tILi0EEEEENSH_INS4_16outsta"
    "nding_work9tracked_tILi0EEEEENSH_INSL_11untracked_tILi0EEEEENSH_INS4_12relationship6fork_t"
    "ILi0EEEEENSH_INSS_14continuation_tILi0EEEEEEEESA_EE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::blocking_t::possibly_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail8blocking10possibly_tILi0EEEE"
    "ES1_RKT_NS0_10constraintIXsr6traits13prefer_memberIRKNS3_12any_executorIJNS3_12context_as_"
    "tIRNS0_17execution_contextEEENS5_7never_tILi0EEENS3_11prefer_onlyIS7_EENSJ_INS4_16outstand"
    "ing_work9tracked_tILi0EEEEENSJ_INSL_11untracked_tILi0EEEEENSJ_INS4_12relationship6fork_tIL"
    "i0EEEEENSJ_INSS_14continuation_tILi0EEEEEEEESA_EE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::outstanding_work_t::tracked_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail16outstanding_work9tracked_tI"
    "Li0EEEEES1_RKT_NS0_10constraintIXsr6traits13prefer_memberIRKNS3_12any_executorIJNS3_12cont"
    "ext_as_tIRNS0_17execution_contextEEENS4_8blocking7never_tILi0EEENS3_11prefer_onlyINSH_10po"
    "ssibly_tILi0EEEEENSK_IS7_EENSK_INS5_11untracked_tILi0EEEEENSK_INS4_12relationship6fork_tIL"
    "i0EEEEENSK_INSS_14continuation_tILi0EEEEEEEESA_EE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::outstanding_work_t::untracked_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail16outstanding_work11untracked"
    "_tILi0EEEEES1_RKT_NS0_10constraintIXsr6traits13prefer_memberIRKNS3_12any_executorIJNS3_12c"
    "ontext_as_tIRNS0_17execution_contextEEENS4_8blocking7never_tILi0EEENS3_11prefer_onlyINSH_1"
    "0possibly_tILi0EEEEENSK_INS5_9tracked_tILi0EEEEENSK_IS7_EENSK_INS4_12relationship6fork_tIL"
    "i0EEEEENSK_INSS_14continuation_tILi0EEEEEEEESA_EE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::relationship_t::fork_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail12relationship6fork_tILi0EEEE"
    "ES1_RKT_NS0_10constraintIXsr6traits13prefer_memberIRKNS3_12any_executorIJNS3_12context_as_"
    "tIRNS0_17execution_contextEEENS4_8blocking7never_tILi0EEENS3_11prefer_onlyINSH_10possibly_"
    "tILi0EEEEENSK_INS4_16outstanding_work9tracked_tILi0EEEEENSK_INSO_11untracked_tILi0EEEEENSK"
    "_IS7_EENSK_INS5_14continuation_tILi0EEEEEEEESA_EE8is_validEiE4typeE")
CUBEPI_UNDER_OTHER_NAME(prefer, execution::relationship_t::continuation_t,
    "_ZNK5boost4asio15any_io_executor6preferINS0_9execution6detail12relationship14continuation_"
    "tILi0EEEEES1_RKT_NS0_10constraintIXsr6traits13prefer_memberIRKNS3_12any_executorIJNS3_12co"
    "ntext_as_tIRNS0_17execution_contextEEENS4_8blocking7never_tILi0EEENS3_11prefer_onlyINSH_10"
    "possibly_tILi0EEEEENSK_INS4_16outstanding_work9tracked_tILi0EEEEENSK_INSO_11untracked_tILi"
    "0EEEEENSK_INS5_6fork_tILi0EEEEENSK_IS7_EEEEESA_EE8is_validEiE4typeE")
#endif
// clang-format on

#undef CUBEPI_UNDER_OTHER_NAME

}  // namespace cubepi::detail

#endif
