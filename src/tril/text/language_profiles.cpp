#include "tril/text/language_profiles.h"

namespace tril {
namespace {

constexpr LanguageProfile kProfiles[] = {
    {"en", Script::latin,
     "the of and a to in is you that it he was for on are with as i his they be at "
     "one have this from or had by not but what all were we when your can said there "
     "an which she do how their if will up other about out many then them these so "
     "some her would make like him into has two more go no way could my than been "
     "who its now people did get may me please don t s where why want know tell set "
     "turn off play show remind any much our us think never let am does s re ll "
     "going i'm very just here man woman people child children young old new good "
     "little big red white black blue green water day night year week time thing "
     "things place home house school work food look looking open long great right "
     "last next before after between under over through around near without own same "
     "another while well too only even most such each those both being",
     "", 0, "", "_th ing_ tion_ _wh ould ight_ ed_ ly_ ness_ _sh ough _kn ever ck_ ee ew_ ys_"},
    {"de", Script::latin,
     "der die das und in den von zu mit sich des auf für ist im dem nicht ein eine als auch es an "
     "werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum "
     "war haben nur oder aber vor zur bis mehr durch man sein wurde sei ich du wir ihr mein dein "
     "kann was wenn mir mich dich dir ihn ihm hier wo wer warum gut ja nein keine kein einen bitte "
     "habe bin bist hast uns sehr immer schon jetzt möchte will muss diese dieser dieses zwei mann "
     "frau steht sitzt",
     "äöüß", 14, "y",
     "sch ung_ _ge ich ein ei cht en_ keit_ heit_ _ver _be pf tz ck st_ lich chen_ "
     "aus ie"},
    {"fr", Script::latin,
     "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il "
     "sont la avec son aux ou mais comme sa on ses cette était être fait nous je vous tu elle ils "
     "mon ma mes ton ta tes leur leurs si tout tous ça c l d j n s qu m y où quand quoi bien très "
     "merci oui non ai as avez ont suis es êtes faut peut veux dit rien jamais toujours encore "
     "aussi chez",
     "àâçéèêëîïôœùûüÿ", 20, "kw",
     "_qu eau oux ez_ aux_ _l' ment_ eur_ tion_ elle_ ais_ ait_ ique_ "
     "oir_ ou oi _ch ette_ eu"},
    {"es", Script::latin,
     "de la que el en y a los se del las un por con no una su para es al lo como más "
     "o pero sus le ha me si sin sobre este ya entre cuando todo esta ser son dos "
     "también fue había era muy años hasta desde está mi porque qué sólo han yo hay "
     "vez puede todos así nos ni parte tiene él uno donde bien tiempo mismo ese "
     "ahora cada e vida otro después te otros aunque esa eso hace otra gobierno tan "
     "durante siempre día tanto ella tres sí estoy tengo quiero gracias dónde cómo "
     "usted eres estás hola",
     "áéíñóúü", 13, "kw",
     "ción_ _qu ado_ ando_ mente_ ll ñ ue ie dad_ os_ as_ ar_ ero_ iendo_ _es rr ez_"},
    {"it", Script::latin,
     "di e che la il un a è per in una mi sono ho non ma lo ha le si ti i con cosa se io come da "
     "ci no questo qui sei del bene tu sì me più al mio perché lei solo te era gli tutto della so "
     "dei nel alla delle anche quando fatto essere mai sua fare detto hai suo voglio abbiamo molto "
     "chi ora dove così stato noi alle dal dalla sul sulla nella loro ed o l un' c d degli agli "
     "grazie buon giorno oggi sta stai siamo hanno questa quello quella",
     "àèéìòù", 9, "jkwxy",
     "zione_ _qu gli che_ chi ità_ ando_ ell tto_ ssi ato_ mente_ zz ghi cci "
     "ino_ are_ ere_ gn uo"},
    {"pt", Script::latin,
     "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele "
     "das tem à seu sua ou ser quando muito há nos já está eu também só pelo pela até isso ela "
     "entre era depois sem mesmo aos ter seus quem nas me esse eles estão você tinha foram essa "
     "num nem suas meu às minha têm numa pelos elas havia seja qual será nós tenho lhe deles essas "
     "este onde aqui bem obrigado obrigada sim estou vou quero fazer pode são tudo agora",
     "àáâãçéêíóôõúü", 20, "kwy",
     "ção_ ções_ _qu ão_ nh lh ei ou_ mente_ dade_ ando_ õe em_ ar_ "
     "inho ss _n"},
    {"gl", Script::latin,
     "de a o que e do da en un para é con non unha os no se na por máis as dos como pero foi ao el "
     "das ten seu súa ou ser cando moi hai nos xa está eu tamén só polo pola ata isto ela entre "
     "era "
     "despois sen mesmo aos ter onde aquí ben grazas si estou quero facer pode son todo agora "
     "unhas uns meu miña",
     "áéíñóúü", 14, "kwyj", "ción_ _x unha nh ll ou_ mente_ dade_ ndo_ eiro xe xa oi"},
    {"ca", Script::latin,
     "de la i a el que en un per amb una els les és del no al es va dels com més "
     "però ha són o seva seu també si han aquest aquesta quan molt ser pel fer tot "
     "ja hi ho on perquè ell jo tu nosaltres està estic què gràcies bon dia sense "
     "entre fins sobre cada on ara d l s va vaig em et tens has havia meves meus "
     "seves les uns unes",
     "àçèéíïòóúü", 18, "kw",
     "ció_ _qu tge ny ix _l' aix tat_ ment_ ar_ eu_ oc l·l ig_ amb ts_ ava_ aven_"},
    {"nl", Script::latin,
     "de van het een en in is dat op te zijn met voor niet aan er om hij ook als dan maar door die "
     "bij ik uit wordt worden heeft was over ze naar je nog tot werd wel hebben had kan zich zijn "
     "dit of geen meer wat u we deze mijn zou moet veel ja nee wie waar waarom hoe jij jullie mij "
     "jou ben bent gaat gaan wil goed daar hier heb zij ons iets niets altijd nooit",
     "éëïöü", 2, "qx", "ij aa oe ee oo uu cht _ge en_ sch _ver lijk_ heid_ eu ui tje_ zie _zw ou"},
    {"af", Script::latin,
     "die en is van in het nie n te dat vir met op ek hy sy jy ons hulle wat as om my jou aan by "
     "was word sal kan nog ook maar daar hier uit of so baie goed een wees waar hoe hoekom geen "
     "dit wil moet gaan kom",
     "êëéôûîïöü", 4, "cqxz", "_ge aa oe ee oo sk y_ lik_ heid_ _ver ui eu tjie_ eer wys"},
    {"sv", Script::latin,
     "och i att det som en på är av för med till den har de inte om ett han men var "
     "jag sig från vi så kan man när år under också efter eller nu sin där vid mot "
     "ska skulle kommer ut får finns vara hade alla andra mycket än här då hon bara "
     "vad din min du mig dig dem oss ja nej hur varför vill ni honom henne något "
     "någon aldrig alltid mina dina hans hennes denna detta dessa",
     "äåöé", 27, "qwz",
     "_sk ck _fö ör_ är ning_ else_ ligt_ ade_ ande_ kt sj _hö åt ll arna_ na_ tt_"},
    {"da", Script::latin,
     "og i at det er en til af på som for med den de ikke har et var han om jeg fra "
     "vi så kan men sig der efter også eller nu sin skal ud mod får hvor hun blev "
     "over mere meget bare hvad din min du mig dig dem os ja nej hvordan hvorfor vil "
     "noget nogen aldrig altid blive have være havde ind op når man mine dine hans "
     "hendes denne dette disse",
     "æåøé", 17, "qwxz",
     "_hv ed_ lse_ _af ning_ lig_ æ ø øj ej_ eg_ tte_ _sk ske_ nde_ gt_ dd ede_ ig_"},
    {"no", Script::latin,
     "og i at det er en til av på som for med den de ikke har et var han om jeg fra "
     "vi så kan men seg der etter også eller nå sin skal ut mot får hvor hun ble "
     "over mer mye bare hva din min du meg deg dem oss ja nei hvordan hvorfor vil "
     "noe noen aldri alltid bli ha være hadde inn opp når man ei å mine dine hans "
     "hennes denne dette disse bli",
     "æåøéòô", 14, "cqwxz",
     "_hv ett_ lse_ _av ning_ lig_ ø øy ei_ eg_ tte_ _sk ske_ nde_ kk dde_ ene_ isk_ "
     "nøk kk_ ble_ øy"},
    {"nn", Script::latin,
     "og i at det er ein til av på som for med den dei ikkje har eit var han om eg "
     "frå vi så kan men seg der etter også eller no sin skal ut mot får kvar ho vart "
     "over meir mykje berre kva din min du meg deg oss ja nei korleis kvifor vil "
     "noko nokon aldri alltid bli ha vere hadde inn opp når me dykk å mine dine hans "
     "denne dette desse",
     "æåøéòô", 14, "cqwxz", "_kv ei øy au ane_ lig_ ikk _sk nde_ tte_ legg ing_ ar_ est_ kj"},
    {"is", Script::latin,
     "og að í á er sem til um við ekki það með en af var fyrir hann þá eru hún ég þú því frá þetta "
     "upp eða hefur verið hvað hvar þegar sér mér mig þér þig nú já nei vera hér þar allt mjög "
     "koma einn ein",
     "áðéíóúýþæö", 55, "cqwz", "_þ ð_ ur_ inn_ um_ nn_ ll _hv ast_ st_ ið_ un_ æ"},
    {"fi", Script::latin,
     "ja on ei se että en hän oli mutta ovat kun niin mitä minä sinä me te he tämä "
     "joka myös kuin jos voi vain nyt jo sen ole sitten mukaan hyvin kaikki mikä "
     "missä miksi miten kuka minun sinun hänen meidän oli olen olet olemme ollut "
     "hyvä kiitos kyllä tai sekä olisi siitä siellä täällä tässä häntä minulla "
     "sinulla nämä ne eivät kun minun oman sinne tänne olivat",
     "äöå", 38, "bcfqwxz",
     "ssa_ ssä_ lla_ llä_ sta_ stä_ aa ii uu ää kk tt en_ minen_ yy uo ie ksi_ nen_ "
     "in_ hän ivat_ mme_ tte_ nsa_"},
    {"et", Script::latin,
     "ja on ei see et oli ma ta kui mis ka oma aga või siis nii kes seda need mida sa me te nad "
     "üks kas välja ära veel nagu kus siin selle olla tema minu sinu väga hea aitäh jah pole mul "
     "sul kõik praegu miks kuidas ning juba",
     "äöõüšž", 32, "cqwxy", "õ ii aa ee st_ ga_ le_ ud_ kk sse_ vad_ tud_ ma_ da_ oo uu äe si_"},
    {"lv", Script::latin,
     "un ir ar par no uz ka kas bet lai tas tā arī kā to vai es tu viņš viņa mēs jūs viņi nav bija "
     "būs pie pēc līdz kad ko jo ja man tev šis šī tikai vēl ļoti labi paldies jā nē kur kāpēc "
     "visi kurš savu gan jau",
     "āčēģīķļņšūž", 50, "qwxy", "ie ā_ ām_ iem_ as_ is_ us_ šana_ ība_ ai_ ot_ tās_ _ne ju_ sp"},
    {"lt", Script::latin,
     "ir kad iš yra į su tai bet kaip buvo ar o jis ne tik per už jau dar kas prie "
     "jo ji mes jūs jie aš tu mano tavo labai gerai ačiū taip apie nuo po iki kur "
     "kodėl šis ši tas ta savo nėra būti gali reikia",
     "ąčęėįšųūž", 40, "qwx", "as_ is_ us_ ai_ ių_ ti_ ė_ ų_ iau_ ie imas_ ama_ tų_ oje_ ys_"},
    {"pl", Script::latin,
     "w i na z się nie do to że jest o a po jak za od są tym co ale dla przez przy jego był tak "
     "czy jej już tylko było ma tego może lub oraz być ich ten który która które będzie ja ty on "
     "ona my wy oni mnie ci mi mu sobie gdzie kiedy dlaczego dobrze bardzo dziękuję mam masz chcę "
     "jestem jesteś kto nic pan pani ze we proszę jeszcze",
     "ąćęłńóśźż", 38, "qvx",
     "rz sz cz ie _prz ych_ ego_ ość_ ów_ owa nie_ ć_ dz ał_ ski_ ła_ ąc ę_"},
    {"cs", Script::latin,
     "a se v na je to že s z do o i ve k pro za by ale si po jako jsem od jeho jsou už také jen "
     "bylo byl jak která který které při co když nebo tak být aby u jsi není ten ta já ty on ona "
     "my "
     "vy oni mi mě tě kde proč kdy dobře děkuji ano ne mám máš chci velmi ještě tady tam jeho její "
     "bude má tím",
     "áčďéěíňóřšťúůýž", 55, "qwx",
     "ř ě ů ou _př ost_ ní_ ch_ ého_ ý_ ám_ ství_ _vy kter al_ ct "
     "ování_"},
    {"sk", Script::latin,
     "a sa v na je to že s z do o i vo k pre za by ale si po ako som od jeho sú už tiež len bolo "
     "bol ktorá ktorý ktoré pri čo keď alebo tak byť aby u nie je ten tá ja ty on ona my vy oni mi "
     "ma ťa kde prečo kedy dobre ďakujem áno mám máš chcem veľmi ešte tu tam jej bude má tým pred "
     "sme ste",
     "áäčďéíĺľňóôŕšťúýž", 50, "qwx",
     "ľ ô ia_ _pr osť_ ov_ ie ch_ ého_ ý_ ám_ stvo_ _vy ktor al_ uje_ "
     "anie_ ť_"},
    {"hu", Script::latin,
     "a az és hogy nem is egy ez meg csak el de volt ha már mint még van le ki én te "
     "ő mi ti ők kell azt ezt lehet vagy sem fel nagyon jó minden be mert úgy aki "
     "ami így most nincs itt ott hol miért mikor igen köszönöm vagyok vagyunk neki "
     "nekem lesz után között szerint ne össze sok két ezek azok amely",
     "áéíóöőúüű", 55, "qwx",
     "sz gy ny cs zs tt_ ban_ ben_ nak_ nek_ ság_ ség_ ok_ ek_ _meg _el ő_ ett_ ik_ "
     "ö ott_ tott lek_ ttem aim"},
    {"ro", Script::latin,
     "de și în a la cu nu o pe că este din un mai să pentru care au se sau fost ce sunt dar ca am "
     "fi ai lui al prin după dacă el ea eu tu noi voi ei îl îi mă te foarte bine unde când cum de "
     "mulțumesc da cine acest această aceasta acum aici tot toate fără până doar era are avea "
     "poate vreau trebuie ne le",
     "ăâîșțşţ", 35, "kqwy",
     "ului_ ă_ rea_ ea_ tă_ ilor_ ții_ ție_ ează_ esc_ oa _în eș ui_ sc ării_"},
    {"hr", Script::latin,
     "i u je da se na za su od s a o što ne kao koji koja koje to ali iz do sam bi "
     "će biti samo još ili nije po bio ja ti on ona mi vi oni me mu gdje kada zašto "
     "dobro hvala kako može sve ovo taj ova ovaj tko vrlo nakon prije između svoj "
     "nema ima bez dok te tijekom kad jer ga smo ste ću ćemo ćeš im joj nam vam",
     "čćđšž", 22, "qwxy",
     "ije nj lj ije_ _pri anje_ ost_ ima_ og_ om_ sk _što tko ti_ ao_ iti_ _ne ala_ "
     "ila_ ija"},
    {"bs", Script::latin,
     "i u je da se na za su od s a o što ne kao koji koja koje to ali iz do sam bi "
     "će biti samo još ili nije po bio ja ti on ona mi vi oni me mu gdje kada zašto "
     "dobro hvala kako može sve ovo taj ova ovaj ko veoma nakon prije između svoj "
     "nema ima bez dok te također kad jer ga smo ste ću ćemo ćeš im joj nam vam",
     "čćđšž", 22, "qwxy",
     "ije nj lj _pri anje_ ost_ ima_ og_ om_ sk _što ti_ ao_ iti_ _ne ala_ ila_ ija"},
    {"sr", Script::latin,
     "i u je da se na za su od s a o što šta ne kao koji koja koje to ali iz do sam "
     "bi će biti samo još ili nije po bio ja ti on ona mi vi oni me mu gde kada "
     "zašto dobro hvala kako može sve ovo taj ova ovaj ko veoma nakon pre između "
     "svoj nema ima bez dok te takođe kad jer ga smo ste ću ćemo ćeš im joj nam vam",
     "čćđšž", 22, "qwxy",
     "nj lj _pri anje_ ost_ ima_ og_ om_ sk _što ti_ ao_ iti_ _ne _pre eo_ ala_ ila_ "
     "ija"},
    {"sl", Script::latin,
     "in je v na se da za so ki z s pa od ne po bi kot tudi že o pri iz do ali še bil bilo sem si "
     "jaz ti on ona mi vi oni kaj kje kdaj zakaj kdo dobro hvala ja lahko zelo samo ko če kako ga "
     "jo mu ji me te nas vas smo ste biti ima bo tega ta to vse ker med pred",
     "čšž", 22, "qwxy", "anje_ ost_ ega_ ih_ om_ nj lj oval_ ski_ _pri _pre ja_ ti_ ev_ la_ več"},
    {"sq", Script::latin,
     "të e në dhe i një për me që nga u se më ka si është do nuk ishte por janë tij këtë në kjo ky "
     "unë ti ai ajo ne ju ata çfarë ku kur pse mirë faleminderit po jo shumë edhe mund kam ke duke "
     "pa deri ndërsa saj tyre",
     "çë", 55, "w", "ë_ sh _nj dh gj th ë ht_ ve_ uar_ it_ ësh të_ rr xh ll"},
    {"tr", Script::latin,
     "ve bir bu da de için ile ne çok daha olarak gibi en var kadar sonra o ben sen "
     "biz siz onlar değil mi mı ama olan ki her şey ya olduğu iyi nasıl nerede neden "
     "niçin evet hayır teşekkürler teşekkür ederim yok bana sana ona beni seni onu "
     "şu şimdi bugün yarın ise göre tarafından önce hiç kim hangi lütfen var mu mü "
     "ki zaman",
     "çğıöşü", 55, "qwx",
     "lar_ ler_ yor_ ın_ in_ ı_ mak_ mek_ dır_ dir_ lık_ sı_ ğ dan_ den_ ş_ ü iyor "
     "dığ diğ ları_"},
    {"az", Script::latin,
     "və bir bu da də üçün ilə nə çox daha olaraq kimi ən var qədər sonra o mən sən "
     "biz siz onlar deyil amma olan ki hər şey yaxşı necə harada niyə bəli xeyr "
     "təşəkkür yox mənə sənə ona indi bu gün isə görə tərəfindən əvvəl heç kim hansı "
     "ki zaman",
     "çəğıöşü", 70, "w",
     "lar_ lər_ dır_ dir_ ə_ maq_ mək_ q_ x də_ da_ ın_ in_ əs ı_ ğı_ ın_ ırdı"},
    {"uz", Script::latin,
     "va bir bu uchun bilan ham edi deb u men sen biz siz ular emas lekin bo ladi bor yo q qanday "
     "qayerda nima nega ha rahmat juda yaxshi kerak keyin har bilan esa hozir kim qaysi o'z",
     "ʻʼ", 10, "cw", "lar_ ning_ dan_ _q sh ch gan_ moqda_ adi_ lik_ ga_ ni_ o'"},
    {"vi", Script::latin,
     "và của là có được cho không trong một các với để người này đã những về từ khi đến như tôi ở "
     "ra nhiều vào sẽ đó lại anh chị em bạn nó họ chúng ta gì đâu sao thế nào rất tốt cảm ơn vâng "
     "phải làm hay thì mà cũng nên năm hơn theo còn đang trên nếu nhưng ai ông bà cô con đi nhà",
     "àáâãèéêìíòóôõùúýăđĩũơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ", 78, "fjwz",
     "ng_ nh_ _ng _nh _th _tr _kh _ph _gi ch_ ươ iê uô"},
    {"id", Script::latin,
     "yang dan di ini itu dengan untuk tidak dari dalam akan pada juga saya ke "
     "karena adalah bisa ada kami kita mereka dia anda kamu aku tapi tetapi oleh "
     "atau sudah lebih telah seperti bahwa apa siapa mana kapan mengapa bagaimana "
     "kenapa terima kasih ya hanya banyak sangat orang menjadi saat harus jika "
     "sebuah seorang tahun belum masih bukan baik hari jadi mau sedang ketika mulai "
     "kalau sampai bagi",
     "é", 0, "qvx", "_me kan_ nya_ _ber _ter _di an_ ng_ _pe ang_ meng si_ _ke aan_ lah_ _se"},
    {"ms", Script::latin,
     "yang dan di ini itu dengan untuk tidak dari dalam akan pada juga saya ke "
     "kerana ialah adalah boleh ada kami kita mereka dia anda awak kamu aku tetapi "
     "oleh atau sudah lebih telah seperti bahawa apa siapa mana bila mengapa "
     "bagaimana kenapa terima kasih ya hanya banyak sangat orang menjadi ketika "
     "mesti perlu jika sebuah seorang tahun belum masih bukan baik hari jadi mahu "
     "wang cuba sedang ketika apabila mula kalau sampai bagi kanak habis",
     "é", 0, "qvx", "_me kan_ nya_ _ber _ter _di an_ ng_ _pe ang_ meng si_ _ke aan_ lah_ _se"},
    {"tl", Script::latin,
     "ang ng sa na mga at ay ko ka mo siya ako hindi ito para may kung si nang niya kay din rin "
     "lang po ba pa kami tayo sila ikaw ano saan kailan bakit paano sino salamat oo wala mayroon "
     "dahil pero kanyang isang iyon doon dito namin natin nila nito maging nga naman",
     "ñ", 1, "cfjqvxz", "ng_ _mga _na _pag _ka _ma an_ in_ _ni ang_ kan _ipi um ay_ gay"},
    {"sw", Script::latin,
     "na ya wa kwa ni katika la za cha kuwa hii hiyo au lakini kama si pia watu mimi "
     "wewe yeye sisi ninyi wao nini wapi lini nani asante ndiyo hapana sana leo "
     "kesho hapa huko yake yangu yako wake wangu wako mtu moja mwaka baada kabla "
     "hivyo ili bado tu huyu hao vya kila zaidi",
     "", 0, "qx", "_ku _wa _ni _ana _ki ika_ isha_ ia_ mb nd ny _ali _ili _tu _hu kwa"},
    {"eu", Script::latin,
     "eta da ez du bat dira zen ere baina hau hori izan dute zuen ni zu gu haiek "
     "nola non noiz zer nor zergatik bai eskerrik asko oso dago dut duzu dugu egin "
     "behar beste urte edo den dela baino gabe bere",
     "ñ", 1, "cqvwy",
     "tz tx ak_ ren_ ko_ ean_ ek_ tzen_ rik_ arr izan _ez tu_ rako_ z_ aren_ etan_ "
     "arekin_ zue"},
    {"eo", Script::latin,
     "la de kaj en estas al por ke mi vi li ŝi ĝi ni ili ne kun sed pri kiel pli estis por el aŭ "
     "tiu tio kiu kio kie kiam kial dankon jes tre bone ankaŭ nur se oni per ĉu ĉi unu havas",
     "ĉĝĥĵŝŭ", 16, "qwxy", "oj_ ojn_ aj_ ajn_ as_ is_ os_ on_ _mal ita_ anto_ j_ ado_"},
    {"ga", Script::latin,
     "an na agus ar i is go a tá do le ní bhí sé sí mé tú siad sinn ag de leis chun faoi mar seo "
     "sin cad cá conas cén fáth raibh níl bhfuil maith raith ach nó sa den don ó as",
     "áéíóú", 38, "jkqvwxyz", "bh mh ch_ _gh ea aí io _dh ach_ eadh_ aigh_ idh ann_ th_"},
    {"cy", Script::latin,
     "y yn a i o ar mae yr ei ac am wedi oedd bod gan eu hyn fel ond hi fe ni chi "
     "nhw beth ble pam pryd sut diolch nid nad ddim hefyd cael rhai un hon hwn dros "
     "dw rydw rwy'n eich",
     "âêîôŵŷö", 3, "jkqvxz", "dd wy _yr rh aeth_ iad_ au_ ydd_ yw_ _gw ch_"},
    {"so", Script::latin,
     "oo iyo ka ku ayaa waa in u la ah soo ay uu aan waxaa waxa ee si loo kale badan "
     "lagu kala isaga iyada aniga adiga maxaa halkee goorma mahadsanid haa maya "
     "hadda mid dadka laakiin markii",
     "", 0, "pvz", "aa oo _wa dh kh _u ay_ ta_ ka_ da_ ada_ uu"},
    {"ha", Script::latin,
     "da a na ya ta ne ce shi ga ba wannan cikin don kuma su mu ni kai ke ku yi an "
     "wata wani amma daga zuwa sai me ina yaushe nagode eh a'a sosai mai duk yana "
     "tana suna",
     "ɓɗƙƴ", 5, "pqvx", "_da ai_ wa_ _ma _sh ts kw _ga awa_"},
    {"yo", Script::latin,
     "ni ti sí àti ó náà wọ́n fún tó bí kò ń pé kan àwọn láti gbogbo wa mi rẹ yìí tí jẹ́ ṣe lọ wà "
     "inú nínú bẹ́ẹ̀",
     "àáèéẹìíòóọṣùúńǹ", 75, "cqvxz", "gb _à àwọn ọ ẹ"},
    // Cyrillic
    {"ru", Script::cyrillic,
     "и в не на я что он с как а то это по к но из у за его вы мы так от же для она бы все о ты "
     "мне "
     "было только меня был еще ещё нет когда или ему если быть до есть была их них да вот сейчас "
     "где почему кто очень хорошо спасибо мой твой наш ваш этот эта эти тоже может можно надо "
     "теперь при чтобы уже ли ни себя том",
     "йщъыьэюяёи", 75, "", "ый_ ого_ ть_ ся_ ие_ ая_ ешь_ ы_ ет_ _при ость_ ние_ ой_ ых_ э ё"},
    {"uk", Script::cyrillic,
     "і в не на я що він з як а то це по до але у за його ви ми так від та для вона би все про ти "
     "мені було тільки мене був ще немає коли або йому якщо бути є була їх них ось зараз де чому "
     "хто дуже добре дякую мій твій наш ваш цей ця ці теж може можна треба тепер при щоб уже чи ні "
     "й із також через",
     "йщьюяєіїґи", 80, "", "ій_ ого_ ти_ ся_ ння_ ї_ є_ і_ ї ів_ ість_ _від _пі ому_ ий_"},
    {"be", Script::cyrillic,
     "і ў не на я што ён з як а то гэта па да але у за яго вы мы так ад і для яна бы усё пра ты "
     "мне "
     "было толькі мяне быў яшчэ няма калі або яму быць ёсць была іх вось зараз дзе чаму хто вельмі "
     "добра дзякуй мой твой наш ваш гэты гэтая таксама можа трэба цяпер каб ужо ці ні",
     "йыьэюяёіў", 85, "щи", "ў дз ць_ цц ага_ ы_ ай_ ыя_ ў_ ні ём ыў_"},
    {"bg", Script::cyrillic,
     "и на да се в не е за от с че по са ще си това като до но той ми го ли те ме му "
     "бе след или тя ни ви им един една много още само може какво кой къде кога защо "
     "как добре благодаря аз ти ние вие който която което бил беше има няма при "
     "преди тук там сега съм сме сте така този тази тези във със когато защото във "
     "тези",
     "йщъьюяи", 68, "ыэ", "ът_ ъ ата_ ите_ ето_ ята_ та_ щ _из ане_ ва_ _пре ния_ я_ аха_ ъл"},
    {"mk", Script::cyrillic,
     "и на да се во не е за од со дека по ќе си ова како до но тој ми го ли те ме му бил или таа "
     "ни "
     "ви им еден една многу уште само може што кој каде кога зошто добро благодарам јас ти ние вие "
     "која кое беше има нема при пред тука таму сега сум сме сте така овој оваа овие ги",
     "ѓѕјљњќџи", 60, "йщъыьэюя", "от_ ата_ ите_ ето_ та_ ј ќ ње_ ува_ _пре ски_ ја_ ѓ"},
    {"sr", Script::cyrillic,
     "и у је да се на за су од с а о што шта не као који која које то али из до сам би ће бити "
     "само "
     "још или није по био ја ти он она ми ви они ме му где када зашто добро хвала како може све "
     "ово "
     "тај ова овај ко веома након пре између свој нема има без док те",
     "ђјљњћџи", 62, "йщъыьэюя", "ј ћ ђ ње_ љ ије ост_ ог_ ом_ ао_ ти_ _при _пре"},
    {"kk", Script::cyrillic,
     "және бір бұл мен үшін да де бар деп ол біз сіз олар емес бірақ қалай қайда не неге иә жоқ "
     "рахмет өте жақсы керек кейін осы сол болды болып еді ғана сондай оның менің",
     "әғқңөұүһійыиюя", 85, "", "ы_ қ ң дар_ дер_ лар_ лер_ ған_ ген_ ның_ нің_ ды_ ді_"},
    {"ky", Script::cyrillic,
     "жана бир бул менен үчүн да де бар деп ал биз сиз алар эмес бирок кандай кайда эмне ооба жок "
     "рахмат абдан жакшы керек кийин ошол болду болуп анын менин",
     "ңөүйыэиюя", 75, "", "ө ү ң лар_ дар_ ган_ нын_ ды_ оо үү ы_"},
    {"tt", Script::cyrillic,
     "һәм бер бу белән өчен да дә бар дип ул без сез алар түгел ләкин ничек кайда нәрсә әйе юк "
     "рәхмәт бик яхшы кирәк соң шул булды булып иде аның минем",
     "әҗңөүһйыэиюя", 80, "", "ә ң ө лар_ ләр_ ган_ гән_ ның_ нең_ ды_ де_"},
    {"mn", Script::cyrillic,
     "нь энэ тэр юм байна байсан бол би чи та бид тэд болон нэг ч гэж уу үү юу хаана хэзээ яагаад "
     "тийм үгүй баярлалаа маш сайн хэрэгтэй дараа бөгөөд их хүн түүний миний",
     "өүйыьэёиюя", 80, "", "өө үү аа ээ ий_ ын_ сан_ сэн_ даг_ дэг_ х_ ж_ гүй_"},
    {"tg", Script::cyrillic,
     "ва дар ба аз ки ин он бо барои аст буд ман ту мо шумо онҳо не ҳа чӣ кӣ куҷо кай чаро хуб "
     "ташаккур бисёр як ҳам то бояд ҳаст нест шуд кард метавонад",
     "ғӣқӯҳҷйэёиюя", 70, "щыь", "ҳо_ ҳои_ ӣ_ ро_ ат_ ҳ ҷ ме _ме ани_"},
    // Arabic
    {"ar", Script::arabic,
     "في من على أن إلى التي الذي هذا هذه ما لا عن مع كان كل قد هو هي أو لم بين بعد قبل ذلك هل أنا "
     "أنت نحن هم كانت يكون ليس أي عند كما حتى إذا ثم غير منذ لكن إن يا كيف أين متى لماذا ماذا من "
     "شكرا نعم جدا اليوم الآن لقد وقد وهو وفي فيه عليه به له لها هناك كنت",
     "ةىيكأإؤئآءه", 80, "", "_ال _وال ة_ ات_ ين_ ون_ _لل _بال ها_ _ي _ت _م"},
    {"fa", Script::arabic,
     "و در به از که این را با است برای آن یک خود تا بر هم نیز شده می شود او من تو ما شما آنها اما "
     "یا اگر بود باید هر دو کرد کند چه کجا کی چرا چگونه خوب ممنون بله نه خیلی امروز حالا هست نیست "
     "هستم هستید دارم دارد نمی ها های اند کنید پس بعد چیست",
     "پچژگکیآئهء", 75, "", "_می ها_ های_ ند_ ست_ ید_ ان_ ای_ گ چ پ تر_"},
    {"ur", Script::arabic,
     "کے کی ہے میں کا اور سے کو نے کہ یہ پر ہیں وہ کر بھی اس ایک تو تھا تھی تھے نہیں ہو جو یا ان "
     "لیے گیا اپنے کوئی ہم آپ تم میرا میری کیا کہاں کب کیوں کیسے کون اچھا شکریہ ہاں بہت آج اب گی "
     "گا گے رہا رہی رہے دیا ہوں وقت جا ساتھ بعد",
     "پچژگکیآئہٹڈڑںھےۂؤء", 88, "", "ے_ ں_ ہے_ وں_ یں_ ھ ٹ تا_ نا_ تی_ ہ_"},
    {"ps", Script::arabic,
     "د په او چې له دا سره کې ته یو نه هم به دي وي هغه زه ته موږ تاسو دوی شي شوی کړي کړ لپاره ولې "
     "چېرته څه څوک ښه مننه هو ډېر نن اوس یې دی ده پر خو کوي",
     "پچژگکیيآئهټډړږښځڅڼېۍ", 78, "", "ې_ ښ ځ ړ ونه_ وي_ کې_ ډ ۍ_"},
    {"ckb", Script::arabic,
     "لە و بە بۆ ئەو کە ئەم لەگەڵ هەر من تۆ ئێمە ئێوە ئەوان نییە بوو هەیە چی کوێ کەی بۆچی چۆن باشە "
     "سوپاس بەڵێ نەخێر زۆر ئەمڕۆ ئێستا یەک دەکات بکە کرد ئەوە",
     "پچژگکیئەێۆڕڵڤھه", 92, "", "ە_ ەکان_ ەکە_ دە _ئە ێ ۆ ی_ ڵ ان_"},
    {"ug", Script::arabic,
     "ۋە بىر بۇ ئۈچۈن بىلەن ھەم دەپ ئۇ مەن سەن بىز سىز ئۇلار ئەمەس لېكىن قانداق نەدە نېمە ھەئە ياق "
     "رەھمەت بەك ياخشى كېرەك كېيىن شۇ بولدى",
     "پچژگكيىئەۇۆۈۋېڭھ", 95, "", "نىڭ_ لار_ لەر_ غان_ گەن_ ى_ دى_ ۇ ې"},
    {"sd", Script::arabic,
     "۾ ۽ جي جو جا کي تي کان آهي ۾ هن اهو ته مان تون اسان توهان نه آهن هو ڪيو ڪري لاءِ به هڪ سان ڇا "
     "ڪٿي",
     "پچژگکڪيآئهٻڀٺٽڄڃڇڌڏڊڍڙڳڱڦڻھ", 85, "", "ڪ ي_ جي_ ن_ ڻ ڳ ٿ"},
    // Devanagari
    {"hi", Script::devanagari,
     "के में की है का और से को ने कि यह पर हैं वह कर भी इस एक तो था थी थे नहीं हो जो या उस लिए गया "
     "अपने कोई हम आप तुम मेरा मेरी मेरे मुझे क्या कहाँ कब क्यों कैसे कौन अच्छा धन्यवाद हाँ बहुत आज "
     "अब साथ ही रहा रही रहे हूँ हुआ दो लोग बाद करें मैं वे ये इसके उसके उन्होंने जा सकता बताओ करो "
     "दिया सकते होता एवं तक ",
     "", 0, "ळ", "ों_ ें_ ता_ ती_ ते_ ना_ ने_ ाँ ड़ कर_ िया_ ूँ_ ाएं_ ीं_"},
    {"mr", Script::devanagari,
     "आणि आहे या तो ती ते हा ही हे मी तू तुम्ही आम्ही तुम्हाला मला त्याला त्यांनी "
     "होते होता होती नाही आहेत काय कुठे कधी का कसे कोण चांगले धन्यवाद हो खूप आज आता "
     "साठी पण किंवा एक झाला झाली केली केले असून असे त्या यांनी म्हणून करा मध्ये वर "
     "तर की आपण त्याच्या",
     "", 0, "", "ळ च्या_ ची_ चे_ चा_ ांनी_ ण्या ून_ ल्या_ त्या _आहे ेल_"},
    {"ne", Script::devanagari,
     "र को छ मा का लाई पनि हो यो त्यो म तिमी तपाईं हामी उनी उनीहरू छन् थियो थिए भएको "
     "गरेको गर्न गरे भने के कहाँ कहिले किन कसरी राम्रो धन्यवाद अहिले आज धेरै छैन तर "
     "वा एक लागि बाट देखि सँग नै हुन् हुन्छ गर्छ भयो गर्ने उनले मेरो हाम्रो यस अनि "
     "छु",
     "", 0, "ळ", "को_ लाई_ हरू न्छ एको_ ेको_ न्_ छन्_ बाट_ र्न_ छ_ ्यो_"},
    {"sa", Script::devanagari,
     "च अस्ति तत् एव न सः सा अहम् त्वम् वयम् इति तस्य मम तव अपि कुत्र कदा किम् कथम् कः यदा तदा सन्ति "
     "भवति आसीत् अस्य यत् वा तु हि",
     "", 0, "", "म्_ ः_ स्य_ ति_ ानि_ ेण_ ाः_ त्_ न्ति_ ेषु_"},
    {"bho", Script::devanagari,
     "के बा में से आ हम रउआ ऊ ई बानी बाड़े रहे नइखे का कहाँ काहे कइसे बहुत हमार "
     "तोहार करे खातिर पर बाटे भइल गइल कइल रहल लोग",
     "", 0, "ळ", "इल_ _रउ ेला_ ेलन_ ेलू_"},
    {"mai", Script::devanagari,
     "अछि छल आ क के मे सँ ओ हम अहाँ ई नहि छी छथि कतय किएक कोना बहुत हमर अहाँक लेल "
     "गेल भेल कएल",
     "", 0, "ळ", "अछि_ छथि_ ैत_ बाक_"},
    // Hebrew, Bengali, Ethiopic: two large languages each.
    {"he", Script::hebrew,
     "של את על לא הוא היא זה עם אני כי גם אם מה יש כל אבל או היה הם אתה אנחנו איפה מתי למה איך מי "
     "תודה כן מאוד היום עכשיו זאת רק יותר לי לך שלי",
     "", 0, "", "ים_ ות_ _ה _ב _ל _ש _מ"},
    {"yi", Script::hebrew,
     "די און אין איז פון צו האט מיט דער ער זי נישט איך דו מיר איר זיי א אויף דאס וואס ווי ווער "
     "אבער",
     "", 0, "", "ײ וו יי אַ אָ ען_ ונג_ פֿ"},
    {"bn", Script::bengali,
     "এবং এই ও না করে থেকে জন্য একটি আমি তুমি আপনি সে আমরা তারা কি কোথায় কখন কেন কিভাবে কে ধন্যবাদ "
     "হ্যাঁ খুব আজ এখন হয় ছিল আছে যে তার আমার",
     "র", 45, "", "ের_ ছে_ ে_ র_ য় টি_"},
    {"as", Script::bengali,
     "আৰু এই নহয় কৰি পৰা বাবে এটা মই তুমি আপুনি সি আমি তেওঁ কি ক'ত কেতিয়া কিয় কেনেকৈ কোন ধন্যবাদ "
     "হয় বৰ আজি এতিয়া আছিল আছে যে তাৰ মোৰ",
     "ৰৱ", 45, "", "ৰ_ ৰ ৱ ছে_ ত_ ক_"},
    {"am", Script::ethiopic,
     "እና ነው ላይ ውስጥ ይህ ወደ እኔ አንተ እሱ እሷ እኛ እነሱ ምን የት መቼ ለምን እንዴት ማን አመሰግናለሁ አዎ አይ በጣም ዛሬ "
     "አሁን ነበር ግን ሁሉ አለ ናቸው",
     "", 0, "", "_የ _በ _ለ ው_ ን_ ች_ ል_"},
    {"ti", Script::ethiopic,
     "እዩ ኣብ ናይ ካብ ናብ እዚ ኣነ ንስኻ ንሱ ንሳ ንሕና እንታይ ኣበይ መዓስ ስለምንታይ ከመይ መን የቐንየለይ እወ ኣይፋል ብጣዕሚ ሎሚ "
     "ሕጂ ነበረ ግን ኩሉ ኣሎ እዮም",
     "", 0, "", "_ኣ _ን _ዝ ኻ ቐ ን_ ት_"},
};

}  // namespace

std::span<const LanguageProfile> language_profiles() { return kProfiles; }

std::string_view plain_letters(Script script) {
  switch (script) {
    case Script::latin: return "abcdefghijklmnopqrstuvwxyz";
    case Script::cyrillic: return "абвгдежзклмнопрстуфхцчш";
    case Script::arabic: return "ابتثجحخدذرزسشصضطظعغفقلمنو";
    case Script::bengali: return "কখগঘঙচছজঝঞটঠডঢণতথদধনপফবভমযলশষসহঅআইঈউঊঋএঐওঔড়ঢ়য়ৎ";
    default: return "";
  }
}

}  // namespace tril
