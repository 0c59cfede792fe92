#pragma once

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <cubepi/core/shared_string.hpp>
#include <cubepi/tracing/text_list.hpp>

namespace cubepi::detail {

/// The texts that occur in the spans of every run.
struct ConstantTexts {
    SharedString chat = "chat";
    SharedString cubepi = "cubepi";
    SharedString execute_tool = "execute_tool";
    SharedString function = "function";
    SharedString invoke_agent = "invoke_agent";
    SharedString parallel = "parallel";
    SharedString sequential = "sequential";
    SharedString turn = "cubepi.turn";
};

/// Returns `last` after making it equal to a list of these texts, which allocates only if they differ. For lists that recur in every
/// run, such as the names of the tools.
template <class Texts, class ToText>
TextList reused_list(TextList& last, const Texts& texts, ToText to_text) {
    const auto is_same = [&](const SharedString& old, const auto& now) {
        return old == to_text(now);
    };
    if (!std::equal(last.begin(), last.end(), std::begin(texts), std::end(texts), is_same)) {
        std::vector<SharedString> list;
        list.reserve(std::size(texts));
        for (const auto& one : texts) list.push_back(to_text(one));
        last = std::move(list);
    }
    return last;
}

/// Returns the texts of this thread: a reference count that all threads share would slow them down.
const ConstantTexts& constant_texts();

}  // namespace cubepi::detail
