#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include <cubepi/core/shared_string.hpp>
#include <cubepi/tracing/text_list.hpp>

namespace cubepi::detail {

/// The texts that occur in the spans of every run.
struct ConstantTexts {
    SharedString invoke_agent = "invoke_agent";
    SharedString turn = "cubepi.turn";
};

/// The lists of texts that were needed last. Lists that recur in every run, such as the names of the tools, are allocated once.
class RecentLists {
public:
    template <class Texts, class ToText>
    TextList list_of(const Texts& texts, ToText to_text) {
        const auto is_same = [&](const SharedString& old, const auto& now) {
            return old == std::invoke(to_text, now);
        };
        for (const TextList& one : lists_) {
            if (std::equal(one.begin(), one.end(), std::begin(texts), std::end(texts), is_same))
                return one;
        }
        std::vector<SharedString> list;
        list.reserve(std::size(texts));
        for (const auto& text : texts) list.push_back(std::invoke(to_text, text));
        TextList& oldest = lists_[next_++ % lists_.size()];
        oldest = std::move(list);
        return oldest;
    }

private:
    std::array<TextList, 4> lists_;
    std::size_t next_ = 0;
};

/// Returns the texts of this thread: a reference count that all threads share would slow them down.
const ConstantTexts& constant_texts();

}  // namespace cubepi::detail
