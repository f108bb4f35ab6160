"""Labels, and templates of texts that belong to them.

Slots: ``{product}``, ``{name}``, ``{city}``, ``{company}``, ``{n}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["EMOTIONS", "INTENTS", "LANGUAGE_TEXTS", "SENTIMENTS", "SPAM", "TOPICS", "Labels"]

Labels = Mapping[str, Sequence[str]]

SENTIMENTS: Labels = {
    "positive": (
        "I love this {product}. It works perfectly and looks great.",
        "The best {product} that I ever bought. Thank you, {company}!",
        "Great quality, fast delivery to {city}. I would buy this {product} again.",
        "My {product} is {n} months old and still a joy every day.",
        "{name} gave me this {product} and I could not be happier with it.",
        "I expected a cheap {product} and was surprised by how excellent it is.",
    ),
    "negative": (
        "This {product} broke after {n} days. I want my money back.",
        "Terrible. The {product} arrived late and damaged.",
        "I regret buying this {product}. It is useless.",
        "The worst {product} that {company} ever made. Never again.",
        "I was looking forward to this {product}, but it is a disappointment.",
        "{name} recommended this {product}. Sadly it does not work at all.",
    ),
    "neutral": (
        "The {product} arrived on Monday. It has {n} parts.",
        "This {product} is made by {company} in {city}.",
        "I bought the {product} for {name}. I have not used it yet.",
        "The {product} is {n} cm long and comes in a box.",
        "It is a {product} like others. It does what it should, no more and no less.",
        "The manual of the {product} has {n} pages.",
    ),
}

TOPICS: Labels = {
    "sports": (
        "The team from {city} won the final {n} to 17 after extra time.",
        "Striker {name} scored twice before half-time in {city}.",
        "{name} ran the marathon of {city} in a new record time.",
        "The coach said that the injury of {name} is not serious.",
    ),
    "business": (
        "{company} raised its profit by {n} percent, and its shares rose.",
        "{company} will buy its rival for {n} million dollars.",
        "The bank in {city} lowered its interest rates for small firms.",
        "Investors doubt that {company} can pay its debts.",
    ),
    "science": (
        "Researchers in {city} found a protein that repairs damaged cells.",
        "A telescope detected water on a planet {n} light years away.",
        "Physicist {name} measured the particle's mass more exactly than before.",
        "The experiment showed that bees can count up to four.",
    ),
    "politics": (
        "Parliament voted {n} to 45 for the new election law.",
        "Mayor {name} of {city} resigned after the vote of no confidence.",
        "The minister met ambassadors in {city} to discuss the treaty.",
        "The opposition wants a referendum about the tax reform.",
    ),
    "travel": (
        "{city} in {n} hours: the best walks, views and hotels for tourists.",
        "Pack light and take the night train to {city}, our guidebook says.",
        "The beaches near {city} are empty in spring, and hotels are cheap.",
        "{name} spent her holidays on an island and recommends the small hotels.",
    ),
}

INTENTS: Labels = {
    "cancel_order": (
        "Please cancel my order {n}. I do not need the {product} any more.",
        "I changed my mind about the {product}. Do not send it, please.",
        "Stop order {n} before it leaves your warehouse.",
    ),
    "change_address": (
        "I moved to {city}. Please send the {product} there instead.",
        "My address is wrong in your system. I live in {city} now.",
        "Can you deliver order {n} to my office in {city} rather than to my home?",
    ),
    "request_refund": (
        "The {product} is faulty. I want my money back.",
        "I returned the {product} {n} days ago and still wait for my money.",
        "You charged me twice for the {product}. Please pay one of them back.",
    ),
    "track_order": (
        "Where is my {product}? I ordered it {n} days ago.",
        "When will order {n} arrive in {city}?",
        "Has the {product} been shipped yet?",
    ),
    "product_question": (
        "Is the {product} suitable for children?",
        "Does the {product} come in other colours?",
        "How heavy is the {product}, and is it waterproof?",
    ),
    "praise": (
        "Just wanted to say that your service is wonderful!",
        "{name} from your team was so kind. Thank you very much!",
        "You are the best shop in {city}. Keep it up!",
    ),
    "technical_problem": (
        "Your website shows an error when I log in.",
        "The app crashes as soon as I open the page of the {product}.",
        "I do not receive the email to reset my password.",
    ),
    "job_application": (
        "Do you have a vacancy in {city}? I attach my CV.",
        "I would like to work for {company} as a driver.",
        "I am looking for an internship of {n} weeks at {company}.",
    ),
}

EMOTIONS: Labels = {
    "joy": (
        "I passed the exam! I could dance through {city}!",
        "{name} said yes! This is the happiest day of my life.",
        "We laughed and sang all evening.",
    ),
    "sadness": (
        "My dog died last night. I cannot stop crying.",
        "Since {name} moved to {city}, I feel so alone.",
        "The funeral was on Friday. I miss her every hour.",
    ),
    "anger": (
        "How dare {name} read my letters! I am furious.",
        "They lied to me again. I could smash the {product}.",
        "This is outrageous! I waited {n} hours for nothing.",
    ),
    "fear": (
        "Somebody is in the house. My hands are shaking.",
        "I am scared of the operation tomorrow.",
        "What if the bridge breaks? I dare not move.",
    ),
    "surprise": (
        "What? {name} is in {city}? I had no idea!",
        "I opened the box, and there was a {product} in it. I did not expect that!",
        "Wow, I never thought that I would win.",
    ),
    "disgust": (
        "The soup was full of hair. I feel sick.",
        "The kitchen in {city} stank of rotten fish. Yuck.",
        "There were worms in the apple that I had bitten into. Revolting.",
    ),
}

LANGUAGE_TEXTS: Labels = {
    "English": ("The train to {city} leaves at noon.", "{name} has bought {n} apples."),
    "French": ("Le train pour {city} part à midi.", "{name} a acheté {n} pommes."),
    "German": ("Der Zug nach {city} fährt mittags ab.", "{name} hat {n} Äpfel gekauft."),
    "Spanish": ("El tren a {city} sale al mediodía.", "{name} ha comprado {n} manzanas."),
    "Italian": ("Il treno per {city} parte a mezzogiorno.", "{name} ha comprato {n} mele."),
}

SPAM: Labels = {
    "yes": (
        "You won {n} million dollars! Send your bank details now to claim the prize.",
        "CHEAP pills, no prescription! Click here today, {n} percent off!!!",
        "Your account is blocked. Open this link and enter your password at once.",
    ),
    "no": (
        "Hi {name}, shall we meet in {city} at noon? I will bring the {product}.",
        "The minutes of Tuesday's meeting are attached. Regards, {name}",
        "Your dentist appointment in {city} is on Monday at {n} past nine.",
    ),
}
