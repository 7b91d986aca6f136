// Filters the list of requirements by what the form holds; the address keeps it.
const form = document.getElementById("requirement-filter");
if (form) {
  const items = [...document.querySelectorAll("#requirement-list > li")].map((li) => [li, li.textContent.toLowerCase()]);
  const fields = [...form.elements].filter((field) => field.name && field.name !== "count");
  for (const [name, value] of new URLSearchParams(location.hash.slice(1)))
    if (form.elements[name]) form.elements[name].value = value;
  const apply = () => {
    const wanted = fields.filter((field) => field.value);
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [li, text] of items) {
      li.hidden = !wanted.every((field) => field.name === "words" || li.dataset[field.name] === field.value)
        || !words.every((word) => text.includes(word));
      shown += !li.hidden;
    }
    form.elements.count.value = `${shown} of ${items.length}`;
    const kept = new URLSearchParams(wanted.map((field) => [field.name, field.value])).toString();
    history.replaceState(null, "", kept ? `#${kept}` : location.pathname.split("/").pop());
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
}
