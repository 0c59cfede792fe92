#include "turn_builtin.hpp"

namespace conformance {
struct BuiltinStage::State {};
BuiltinStage::BuiltinStage(const JsonObject&, std::shared_ptr<TurnLog>) {
    throw Unsupported("builtin");
}
BuiltinStage::~BuiltinStage() = default;
std::filesystem::path BuiltinStage::workspace() const { return {}; }
void BuiltinStage::prepare(bub::Envelope&) {}
void BuiltinStage::add_to(bub::Framework&) {}
bub::Task<> BuiltinStage::report(JsonObject&, const bub::Envelope&) { co_return; }
void BuiltinStage::trim(JsonObject&) {}
}  // namespace conformance
