// The "Show All" / "Failed Only" switch of a validation page.
function show(visible) {
  const mark = visible ? "" : "none";
  document.querySelectorAll(".hide-succeeded-validation-target").forEach((e) => { e.style.display = mark; });
  document.querySelectorAll(".hide-succeeded-validation-target-child").forEach((e) => {
    e.parentElement.style.display = mark;
  });
  document.querySelectorAll(".hide-succeeded-validations-column-section-target-child").forEach((e) => {
    const section = e.parentElement.parentElement;
    section.style.display = mark;
    document.querySelectorAll(`a[href="#${section.id}"]`).forEach((a) => { a.style.display = mark; });
  });
}
function showAllValidations() { show(true); }
function hideSucceededValidations() { show(false); }
