#include <cubepi/tracing/recorder/constant_texts.hpp>

namespace cubepi::detail {

const ConstantTexts& constant_texts() {
    thread_local const ConstantTexts texts;
    return texts;
}

}  // namespace cubepi::detail
