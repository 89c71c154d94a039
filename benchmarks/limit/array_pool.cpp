// The request path of the pool as an array pool in C++: what there is to reach, not a library.
//
// Intrusive links by index, open addressing with linear probing on the digest, deletion by moving
// later entries back, one thread. It does the same work in the same order as both Python pools:
// look-up, touch, allocate with eviction, index, free in reverse. Nothing is checked.

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;  // spreads what the digest's first word holds
constexpr uint32_t kNone = 0;                          // block 0 is the null block and the list's sentinel

struct Digest {
    uint64_t words[4];
    bool operator==(const Digest& other) const { return std::memcmp(words, other.words, sizeof words) == 0; }
};

class ArrayPool {
  public:
    explicit ArrayPool(uint32_t num_blocks)
        : next_(num_blocks), previous_(num_blocks), count_(num_blocks), later_(num_blocks), hashed_(num_blocks),
          digests_(num_blocks) {
        bits_ = 4;
        while ((uint64_t{1} << bits_) < uint64_t{num_blocks} * 2) bits_++;
        slots_.resize(uint64_t{1} << bits_);
        for (uint32_t id = 0; id < num_blocks; id++) {
            next_[id] = id + 1 == num_blocks ? kNone : id + 1;
            previous_[id] = id == 0 ? num_blocks - 1 : id - 1;
        }
    }

    uint64_t serve(const Digest* digests, uint32_t length) {
        table_.clear();
        for (uint32_t i = 0; i < length; i++) {
            uint32_t id = find(digests[i]);
            if (id == kNone) break;
            table_.push_back(id);
        }
        uint32_t num_hits = static_cast<uint32_t>(table_.size());
        for (uint32_t id : table_)
            if (count_[id]++ == 0) unlink(id);
        for (uint32_t i = num_hits; i < length; i++) {
            uint32_t id = next_[kNone];
            unlink(id);
            if (hashed_[id]) evict(id);
            count_[id] = 1;
            table_.push_back(id);
        }
        for (uint32_t i = num_hits; i < length; i++) insert(digests[i], table_[i]);
        for (uint32_t i = length; i-- > 0;)
            if (--count_[table_[i]] == 0) append(table_[i]);
        return num_hits;
    }

    void free_order(uint32_t* ids) const {
        for (uint32_t id = next_[kNone]; id != kNone; id = next_[id]) *ids++ = id;
    }

  private:
    uint64_t mix(const Digest& digest) const { return digest.words[0] * kMultiplier; }

    // A slot: the upper half of the mixed word, block id. 0 is empty, because the null block is never in it.
    static uint64_t entry_of(uint64_t mixed, uint32_t id) { return (mixed & ~uint64_t{0xFFFFFFFF}) | id; }
    uint64_t home_of(uint64_t entry) const { return entry >> (64 - bits_); }
    uint64_t after(uint64_t slot) const { return (slot + 1) & (slots_.size() - 1); }

    uint64_t slot_of(const Digest& digest) const {
        uint64_t mixed = mix(digest);
        uint64_t slot = home_of(mixed);
        for (;; slot = after(slot)) {
            uint64_t entry = slots_[slot];
            if (entry == 0) return slot;
            if ((entry ^ mixed) >> 32 == 0 && digests_[static_cast<uint32_t>(entry)] == digest) return slot;
        }
    }

    uint32_t find(const Digest& digest) const { return static_cast<uint32_t>(slots_[slot_of(digest)]); }

    void insert(const Digest& digest, uint32_t id) {
        digests_[id] = digest;
        hashed_[id] = 1;
        later_[id] = kNone;
        uint64_t slot = slot_of(digest);
        if (slots_[slot] == 0) {
            slots_[slot] = entry_of(mix(digest), id);
            return;
        }
        uint32_t last = static_cast<uint32_t>(slots_[slot]);
        while (later_[last] != kNone) last = later_[last];
        later_[last] = id;
    }

    void evict(uint32_t id) {
        hashed_[id] = 0;
        uint64_t slot = slot_of(digests_[id]);
        uint32_t first = static_cast<uint32_t>(slots_[slot]);
        if (first != id) {
            while (later_[first] != id) first = later_[first];
            later_[first] = later_[id];
        } else if (later_[id] != kNone) {
            slots_[slot] = entry_of(slots_[slot], later_[id]);
        } else {
            clear(slot);
        }
    }

    void clear(uint64_t hole) {
        uint64_t mask = slots_.size() - 1;
        for (uint64_t slot = after(hole); slots_[slot] != 0; slot = after(slot)) {
            if (((slot - home_of(slots_[slot])) & mask) >= ((slot - hole) & mask)) {
                slots_[hole] = slots_[slot];
                hole = slot;
            }
        }
        slots_[hole] = 0;
    }

    void unlink(uint32_t id) {
        next_[previous_[id]] = next_[id];
        previous_[next_[id]] = previous_[id];
    }

    void append(uint32_t id) {
        uint32_t last = previous_[kNone];
        next_[last] = id;
        previous_[id] = last;
        next_[id] = kNone;
        previous_[kNone] = id;
    }

    std::vector<uint32_t> next_, previous_, count_, later_;
    std::vector<uint8_t> hashed_;
    std::vector<Digest> digests_;
    std::vector<uint64_t> slots_;
    std::vector<uint32_t> table_;
    unsigned bits_;
};

}  // namespace

extern "C" {

void* pool_make(uint32_t num_blocks) { return new ArrayPool(num_blocks); }

void pool_drop(void* pool) { delete static_cast<ArrayPool*>(pool); }

// Serves requests of equal length, whose digests stand one after the other; returns the hits of all.
uint64_t pool_play(void* pool, const char* digests, uint32_t num_requests, uint32_t length) {
    const Digest* digest = reinterpret_cast<const Digest*>(digests);
    uint64_t num_hits = 0;
    for (uint32_t i = 0; i < num_requests; i++, digest += length)
        num_hits += static_cast<ArrayPool*>(pool)->serve(digest, length);
    return num_hits;
}

// Ids of the free blocks, oldest first; there are num_blocks - 1 of them when no request runs.
void pool_free_order(const void* pool, uint32_t* ids) { static_cast<const ArrayPool*>(pool)->free_order(ids); }
}
