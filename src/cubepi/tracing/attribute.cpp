#include <cubepi/tracing/attribute.hpp>

#include <algorithm>

namespace cubepi {

AttributeValue::Kind AttributeValue::kind() const noexcept {
    switch (tag_) {
        case Tag::boolean: return Kind::boolean;
        case Tag::integer: return Kind::integer;
        case Tag::number: return Kind::number;
        case Tag::list: return Kind::list;
        case Tag::literal:
        case Tag::shared: break;
    }
    return Kind::text;
}

std::size_t AttributeValue::memory_of_texts() const noexcept {
    if (tag_ == Tag::shared) return shared_.size();
    std::size_t bytes = 0;
    for (const SharedString& text : list_) bytes += sizeof text + text.size();
    return bytes;
}

bool operator==(const AttributeValue& a, const AttributeValue& b) noexcept {
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
        case AttributeValue::Kind::boolean: return *a.if_boolean() == *b.if_boolean();
        case AttributeValue::Kind::integer: return *a.if_integer() == *b.if_integer();
        case AttributeValue::Kind::number: return *a.if_number() == *b.if_number();
        case AttributeValue::Kind::list: return *a.if_list() == *b.if_list();
        case AttributeValue::Kind::text: break;
    }
    return *a.if_text() == *b.if_text();
}

void Attributes::set(AttributeKey key, AttributeValue value) {
    for (Attribute& one : all_) {
        if (!(one.key == key)) continue;
        one.value = std::move(value);
        return;
    }
    add(std::move(key), std::move(value));
}

const AttributeValue* Attributes::find(std::string_view key) const noexcept {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [key](const Attribute& one) { return one.key == key; });
    return found == all_.end() ? nullptr : &found->value;
}

std::size_t Attributes::memory() const noexcept {
    std::size_t bytes = all_.size() * sizeof(Attribute);
    for (const Attribute& one : all_) bytes += one.value.memory();
    return bytes;
}

}  // namespace cubepi
