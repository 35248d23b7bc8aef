// Classes of priority: a higher class is sent first, and a lower one that waits gets one byte beside SHARE bytes of it.
#pragma once

#include <array>
#include <cstdint>

constexpr uint32_t CLASSES = 4;
constexpr uint64_t SHARE = 100;  // as in controller/model/priority.py

class ClassTurns {
 public:
  // The class whose packet is next, of those that wait (at least one).
  uint32_t next(const std::array<bool, CLASSES> &waits) const {
    uint32_t highest = CLASSES - 1;
    while (!waits[highest]) --highest;
    for (uint32_t each = highest; each-- > 0;)
      if (waits[each] && passed_[each] >= floor_[each]) return each;
    return highest;
  }

  // A packet of a class is sent while these wait.
  void sent(uint32_t which, uint64_t bytes, const std::array<bool, CLASSES> &waits) {
    for (uint32_t each = 0; each < which; ++each) passed_[each] = waits[each] ? passed_[each] + bytes : 0;
    passed_[which] = 0;
    floor_[which] = SHARE * bytes;
  }

 private:
  // Bytes of higher classes since the last packet of each, and how many are due before its next one.
  std::array<uint64_t, CLASSES> passed_{}, floor_{};
};
